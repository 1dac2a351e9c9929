"""Nodes behind real sshds with a stand-in for mpirun, srun and nccl-tests (MPI=1), whose ranks meet over ssh."""

import contextlib
import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

from fleet.machine import Machine, facts_of
from support.rdma_fleet import Crew
from support.sshd import Fleet
from support.tool_folder import ToolFolder

from nodegate.measure.durations import Durations
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.measure.measurement import Target, document
from nodegate.transport import Options, connect

FAKES = Path(__file__).with_name("fake_tools")
COLLECTIVES = ("all_reduce", "alltoall", "sendrecv")
NIGHTLY = Durations(burn_s=1, copies_s=1, link_s=1, collective_s=1, group_s=60.0)
DELIVERY = replace(NIGHTLY, group_s=300.0)
SIZE = 1 << 30


class NcclFleet:
    """`count` nodes with `gpus` GPUs each. `nodes` are their faults, `more` what nccl-tests is told besides."""

    def __init__(
        self,
        folder,
        count,
        *,
        gpus=1,
        nodes=None,
        launcher="mpirun",
        launch=None,
        durations=NIGHTLY,
        expected=None,
        **more,
    ):
        self.fleet = Fleet(folder, count, name="gpu")
        self.folder, self.durations, self.gpus = folder / "tools", durations, gpus
        self.expected, self.launcher = expected or {}, launcher
        self.folder.mkdir()
        self.without: dict[str, tuple[str, ...]] = {}
        for name in COLLECTIVES:
            shutil.copy(FAKES / "nccl_perf_mpi", self.folder / f"{name}_perf_mpi")
        shutil.copy(FAKES / "nccl_perf", self.folder)
        shutil.copy(FAKES / "mpirun", self.folder / launcher)
        shutil.copy(FAKES / "mpirun", self.folder / "orted")
        (self.folder / "nccl_perf.json").write_text(json.dumps({"nodes": dict(nodes or {}), **more}))
        connection = self.fleet.nodes[0].connection
        ssh = ["ssh", *connection.ssh_args, "-p", str(connection.port), "-i", str(self.fleet.user_key), "-q"]
        names = {node.address: node.name for node in self.fleet.nodes}
        told = {"ssh": ssh, "names": names, **(launch or {})}
        (self.folder / "launch.json").write_text(json.dumps(told))
        self.pool = Crew()

    @contextlib.contextmanager
    def targets(self):
        with self.fleet, contextlib.ExitStack() as stack:
            found = []
            for node in self.fleet.nodes:
                known = replace(node, expected=self.expected)
                session = stack.enter_context(contextlib.closing(connect(known, Options())))
                tools = ToolFolder(self.folder, self.without.get(node.name, ()))
                found.append(Target(known, session, facts(self.gpus), tools, self.durations))
            yield found

    def measure(self):
        return {name: replayed([attempt]) for name, attempt in self.runs().items()}

    def runs(self):
        with self.targets() as targets:
            return NCCL_GROUPS.measure(targets, self.pool)


@cache
def facts(gpus):
    machine = Machine.hgx_h100()
    for _ in range(8 - gpus):
        machine.remove_gpu(0)
    return facts_of(machine)


def replayed(attempts):
    """Through the evidence file and back, as a run does it."""
    written = json.dumps(document("nccl_groups", attempts))
    return NCCL_GROUPS.of_document(json.loads(written))


def table(what, ranks, busbw, wrong=0, *, size=SIZE, version="2.19.6"):
    """What nccl-tests print for one size over nodes of 8 GPUs."""
    factor = {"all_reduce": 2.0 * (ranks - 1) / ranks, "alltoall": (ranks - 1) / ranks}.get(what, 1.0)
    time_us = size / 1e3 / (busbw / factor)
    half = f"  {time_us:7.2f}  {size / 1e3 / time_us:6.2f}  {size / 1e3 / time_us * factor:6.2f}  {wrong:6}"
    lines = [
        f"# nccl-tests version {version} nccl-headers=22703 nccl-library=22703",
        f"# Collective test starting: {what}_perf_mpi",
        f"# nThread 1 nGpus 1 minBytes {size} maxBytes {size} step: 2(factor) warmup iters: 3 iters: 10",
        "#\n# Using devices",
        *_devices(ranks),
        "NCCL version 2.27.3+cuda12.8",
        f"{size:12}  {size // 4:12}     float     sum      -1{half}{half}",
        f"# Out of bounds values : {2 * wrong} {'FAILED' if wrong else 'OK'}",
        "# Avg bus bandwidth    : 300 \n#",
    ]
    return "\n".join(lines)


@cache
def _devices(ranks):
    return [
        f"#  Rank {rank:2} Group  0 Pid {4000 + rank:6} on gpu{rank // 8 + 1:02} device {rank % 8:2}"
        " [0000:1b:00] NVIDIA H100 80GB HBM3"
        for rank in range(ranks)
    ]
