"""A run under load over nodes that Slurm lends: it measures and judges as by SSH; launches over nodes run inside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import cuda, nccl
from support.load_fleet import BURN, GBPS, PERFTEST, PERFTEST_NAMES

from lab import needs
from lab.mpi.site import PROGRAM, Site, site
from lab.nodes import gpus
from lab.nodes.nodes import why_not
from lab.run import Outcome, Run
from nodegate.scheduler.hold import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.nodes.node import LabNode

CHECKS = Path(__file__).parents[3] / "checks"
ASKED = {  # by the launcher of the groups
    "mpirun": ("node", "gpu", "burn", "nccl", "nccl_groups", "rdma_bandwidth", "counters"),
    "srun": ("node", "nccl_groups"),
}
LOAD = ("-p", "lab.slow_probe", "--profile", "nightly", "--burn", "1s", "--hang-after", "60s", "--tb=no")
SLOW_GPU, SLOW_RAIL = 3, "mlx5_2"


def _furnish(node: LabNode, *, is_slow: bool) -> None:
    """GPUs that burn, and the tools of measurements, one GPU and one adapter slower than the others."""
    libraries = cuda.library().parent
    for name in ("libcuda.so.1", "libcublas.so.12"):
        shutil.copy(libraries / name, node.root / "usr/lib/x86_64-linux-gnu" / name)
    scenario = gpus.scenario(node)
    for key, value in BURN.items():
        scenario.set(None, key, value)
    if is_slow:
        scenario.set(SLOW_GPU, "cuda.product_s", 7e-7)
    scenario.write(node.root / gpus.SCENARIO)
    tools = node.root / "usr/local/bin"
    buses = [int(address[5:7], 16) for address in gpus.gpu_addresses(node)]
    nccl.install(tools, gpus=8, buses=buses, host=node.name)
    rails = sorted(each.name for each in (node.hardware / "sys/class/infiniband").iterdir())
    devices = {rail: {"gbps": 120.0 if is_slow and rail == SLOW_RAIL else GBPS} for rail in rails}
    (tools / "rdma.json").write_text(
        json.dumps({"node": node.name, "version": "25.01", "devices": devices, "time": True})
    )
    for name in PERFTEST_NAMES:
        shutil.copy(PERFTEST, tools / name)
    for name in nccl.NAMES:
        target = tools / f"{name}_perf_mpi"
        if target.name != Path(PROGRAM).name:
            shutil.copy(node.root / PROGRAM.lstrip("/"), target)


def _uncounted(node: LabNode) -> None:
    """The ports of made adapters count nothing of what a stand-in for perftest says that it sent."""
    for file in (node.hardware / "sys/class/infiniband").glob("*/ports/1/counters/port_*_data"):
        file.unlink()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    needs.require(why_not())
    with site(2, tmp_path_factory.mktemp("load"), _uncounted) as running:
        for number, node in enumerate(running.nodes):
            _furnish(node, is_slow=number == 1)
        yield running


def measured(place: Site, folder: Path, launcher: str, *more: str) -> Outcome:
    own = {node.name: {"nodegate_launcher": launcher} for node in place.nodes}
    inventory = place.slurm.lab.inventory([node.name for node in place.nodes], own)
    checks = [str(CHECKS / f"test_{name}.py") for name in ASKED[launcher]]
    with Run(folder, inventory, *LOAD, *more, *checks, within=place.slurm.lab.space.in_network()) as run:
        return run.outcome()


def said(outcome: Outcome) -> set[tuple[str, str, str, str]]:
    """Node, check, verdict and the codes of all that was found."""
    return {
        (each.node, each.check, each.verdict.value, " ".join(sorted({finding.code for finding in each.findings})))
        for each in outcome.records
    }


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_load_by_slurm_says_what_load_by_ssh_says(
    place: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    monkeypatch.setenv("PATH", f"{place.slurm.programs(tmp_path)}:{os.environ['PATH']}")
    by_ssh = measured(place, tmp_path / "ssh", launcher)
    by_slurm = measured(place, tmp_path / "slurm", launcher, "--inventory", "slurm:[gpu]")
    assert said(by_slurm) ^ said(by_ssh) == set(), by_slurm.output
    for node in place.nodes:
        assert by_slurm.verdict(node.name, "nccl_groups.launch") == "pass", by_slurm.words(
            node.name, "nccl_groups.launch"
        )
        for name in sorted({"burn", "nccl", "nccl_groups", "rdma_bandwidth"} & set(ASKED[launcher])):
            assert by_slurm.values(node.name, name).keys() == by_ssh.values(node.name, name).keys() != set()
    if launcher == "mpirun":
        slow = place.nodes[1].name
        assert by_slurm.verdict(slow, "burn.node_spread") == "warn"
        assert f"{SLOW_RAIL} (0000:34:00.0): RDMA write bandwidth 120 Gb/s" in by_slurm.words(
            slow, "rdma_bandwidth.write"
        )
    assert place.left() == []
    assert place.slurm.controller.run("squeue", "-h", "-n", NAME, "-t", "PD,R", "-o", "%i") == ""
