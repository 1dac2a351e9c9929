"""A fleet behind real sshds whose nodes carry load: GPUs, adapters and tools of their own, faults planted one by one.

    with LoadFleet(tmp_path, 64) as fleet:
        fleet["gpu7"].adapter("mlx5_1", gbps=120.0)
        outcome = fleet.run(tmp_path / "run")

All nodes are this machine. What makes each a node of its own is its interpreter, a script that sets the node's file
tree in place of /sys and /proc, the stand-ins for NVIDIA's libraries with the node's scenario, and a PATH of its own
with the stand-ins of the tools. Everything else is real: sshd, the guard, the programs that we send, locks, evidence.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from support import bare, cuda, nccl, warm
from support.recorded import PytestOutcome
from support.sshd import Fleet

from lab.nodes.tree import NodeTree, config_space
from lab.nvml import scenario as nvml
from lab.processes import MARK, marked, tell
from lab.run import ROOT

GPUS, RAILS = 2, 2  # two GPUs where a node may have eight: this machine computes what all of them do
PERFTEST = Path(__file__).with_name("fake_tools") / "perftest"
PERFTEST_NAMES = ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat")
PORTS_OF_A_NODE = 5 * RAILS
GBPS = 391.5
# With results of 3 MB the products are the smallest that the burn makes. The time of one gives a rate like an H100's.
# Under load the power cap holds the clock, as on every good board, at 694 of 700 W.
BURN = {"cuda.memory": 3_000_000, "cuda.product_s": 5.3e-7, "event_reasons": 4, "power": 694_000}
CHECKS = ROOT / "checks"
# What is asked of the nodes: all measurements whose programs have stand-ins here, and the facts that these rest on.
ASKED = ("node", "platform", "gpu", "ecc", "nvlink", "idle", "rdma", "burn", "nccl", "rdma_bandwidth", "counters")
# The nodes have no login shell, from which rdma.gid_index would read what NCCL is told.
NO_SHELL = ("-k", "not gid_index")
SHORT = ("-p", "lab.path_alone", "--profile", "nightly", "--burn", "1s", "--hang-after", "10s", *NO_SHELL)
LIMIT_S = 600.0

_NODE = """#!/bin/sh
export {mark} NODEGATE_PROBE_ROOT={tree} NVML_MOCK_SCENARIO={scenario} LD_LIBRARY_PATH={libraries}
export PATH={tools}:{programs}
exec /usr/bin/python3 "$@"
"""


@dataclass
class LoadNode:
    """One node, and what can be wrong with it. Faults may be planted and repaired while the fleet runs."""

    name: str
    folder: Path
    place: int
    adapters: dict[str, dict[str, object]] = field(default_factory=dict)
    told: dict[str, object] = field(default_factory=dict)  # to the stand-in of nccl-tests
    scenario: nvml.Scenario = field(default_factory=lambda: nvml.healthy_h100(GPUS))

    def adapter(self, device, **settings):
        """What perftest measures on an adapter: gbps=120.0, fault="deaf" (tests/support/fake_tools/perftest)."""
        self.adapters.setdefault(device, {"gbps": GBPS}).update(settings)
        written = {"node": self.name, "version": "25.01", "devices": self.adapters, "time": True}
        _write(self.tools / "rdma.json", json.dumps(written))

    def nccl(self, **told):
        """What nccl-tests do: faults={"all_reduce": "hang"} (tests/support/fake_tools/nccl_perf)."""
        self.told.update(told)
        _write(
            self.tools / "nccl_perf.json", json.dumps({"gpus": GPUS, "buses": _BUSES, "host": self.name, **self.told})
        )

    def gpu(self, gpu, key, value):
        """A value of NVML or CUDA on one GPU, or on all (lab/nvml/nvmlmock.c, tests/cuda/libcudamock.c)."""
        self.scenario.set(gpu, key, value).write(self.folder / "scenario.conf")

    def lacks(self, tool):
        """A tool is not installed."""
        (self.tools / tool).unlink()

    @property
    def tools(self):
        """What comes first on its PATH."""
        return self.folder / "bin"

    @property
    def lock(self):
        """The file of its lock."""
        return self.folder / "lock"

    @property
    def is_locked(self):
        """Whether a run holds it; to try it would keep the run from it."""
        held = Path("/proc/locks").read_text()
        return self.lock.exists() and f":{self.lock.stat().st_ino} 0 EOF" in held


class LoadFleet:
    """`count` nodes gpu1, gpu2, ..., the first `with_rdma` of them (None: all) with adapters; a context manager."""

    def __init__(self, folder, count, *, with_rdma=None):
        folder.mkdir(parents=True, exist_ok=True)
        self._with_rdma = count if with_rdma is None else with_rdma
        self.mark = folder.name + str(random.SystemRandom().randrange(1 << 30))
        self._first_port = random.SystemRandom().randrange(9_000, 19_000 - count * PORTS_OF_A_NODE)
        self._ssh = Fleet(folder, count, name="gpu")
        self.nodes = [LoadNode(node.name, folder / node.name, place) for place, node in enumerate(self._ssh.nodes)]
        self._programs = bare.programs(folder / "programs")
        for rails in {self._rails(node) for node in self.nodes}:
            _tree(folder / f"tree-{rails}", rails)
        for node in self.nodes:
            self._furnish(node, folder / f"tree-{self._rails(node)}")

    def __getitem__(self, name):
        return next(node for node in self.nodes if node.name == name)

    def _rails(self, node):
        return RAILS if node.place < self._with_rdma else 0

    def _furnish(self, node, tree):
        node.folder.mkdir()
        subprocess.run(["cp", "-al", str(tree), str(node.folder / "tree")], check=True)
        serial = node.folder / "tree/sys/class/dmi/id/product_serial"
        serial.parent.mkdir(parents=True)
        serial.write_text(f"SN{node.place:08}\n")
        nccl.install(node.tools)
        for name in PERFTEST_NAMES:
            (node.tools / name).symlink_to(PERFTEST)
        (node.tools / "python3").symlink_to("/usr/bin/python3")  # for the stand-ins: not a slow one of this machine
        for gpu in range(GPUS):
            node.scenario.set(gpu, "bus_id", f"0000{_gpu_address(gpu).upper()}")
            node.scenario.set(gpu, "uuid", f"GPU-{node.place:08}-0000-4000-8000-{gpu:012}")
            node.scenario.set(gpu, "serial", 1650123000001 + 100 * node.place + gpu)
        for key, value in BURN.items():
            node.gpu(None, key, value)
        node.nccl()
        for rail in range(self._rails(node)):
            node.adapter(f"mlx5_{rail}")
        variables = cuda.environment(node.folder / "scenario.conf")
        script = _NODE.format(
            mark=f"{MARK}={self.mark}",
            tree=node.folder / "tree",
            scenario=variables["NVML_MOCK_SCENARIO"],
            libraries=variables["LD_LIBRARY_PATH"],
            tools=node.tools,
            programs=self._programs,
        )
        _write(node.folder / "python", script).chmod(0o755)

    def __enter__(self):
        self._ssh.__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._ssh.stop()
        tell(marked(self.mark), signal.SIGKILL)

    def inventory(self):
        """The fleet as an Ansible YAML inventory."""
        head = self._ssh.inventory().split("  hosts:\n")[0] + "  hosts:\n"
        return head + "".join(
            f"    {node.name}: {{ansible_host: {ssh.address}, ansible_python_interpreter: {node.folder}/python, "
            f"nodegate_lock: {node.lock}, nodegate_rdma_port: {self._first_port + node.place * PORTS_OF_A_NODE}, "
            f"nodegate_limits: {{gpu.count: {GPUS}, rdma.rails: {self._rails(node)}}}}}\n"
            for node, ssh in zip(self.nodes, self._ssh.nodes, strict=True)
        )

    def start(self, folder, *arguments, asked=ASKED):
        """Begin a run in a folder of its own, as a user would."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.yaml").write_text(self.inventory())
        return LoadRun(folder, [*SHORT, *arguments, *(str(CHECKS / f"test_{name}.py") for name in asked)])

    def run(self, folder, *arguments, asked=ASKED):
        """A whole run."""
        return self.start(folder, *arguments, asked=asked).outcome()

    def left(self):
        """Every process that runs on a node now, whoever its parent is."""
        return sorted({*marked(self.mark), *self._ssh.descendants()})

    def cut(self):
        """Every connection breaks: the sshds that serve one are killed; those that listen stay."""
        tell(self._ssh.serving(), signal.SIGKILL)

    def connections(self):
        """How many logins succeeded so far."""
        return self._ssh.connections()

    def is_clear(self):
        """Whether no process is left on any node and no lock is held."""
        return not self.left() and not any(node.is_locked for node in self.nodes)


class LoadRun:
    """A run that goes on. It resumes the run of its folder when it is told to by `--resume`."""

    def __init__(self, folder, arguments):
        self.folder = folder
        command = [sys.executable, "-m", "pytest", "--inventory", "hosts.yaml", "-q", "--tb=no", *arguments]
        self.process = warm.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PY_COLORS": "0", "COLUMNS": "200", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def outcome(self):
        """What it left behind, when it has ended."""
        stdout, stderr = self.process.communicate(timeout=LIMIT_S)
        return PytestOutcome(self.process.returncode, stdout, stderr, self.folder / "reports" / "latest")

    def evidence(self, measurement):
        """What it has of a measurement so far, by node."""
        found = self.folder.glob(f"reports/latest/evidence/*/{measurement}.json")
        return {file.parent.name: json.loads(file.read_text()) for file in found}


def _gpu_address(gpu):
    return f"0000:{0x13 + 0x10 * gpu:02x}:00.0"


_BUSES = [int(_gpu_address(gpu)[5:7], 16) for gpu in range(GPUS)]


def _tree(root, rails):
    """A node of H100 GPUs: each behind a PCIe switch, an InfiniBand adapter beside each of the first ones."""
    tree = NodeTree(root)
    for number in range(GPUS):
        bus = 0x10 + 0x10 * number
        port, up, down = (f"0000:{bus + at:02x}:0{slot}.0" for at, slot in ((0, 1), (1, 0), (2, 0)))
        tree.pci(port, ids=("0x060400", "0x8086", "0x352a"))
        tree.pci(up, below=(port,))
        tree.pci(down, below=(port, up), config=config_space(acs_control=0))
        address = _gpu_address(number)
        tree.pci(address, below=(port, up, down), ids=("0x030200", "0x10de", "0x2330"), driver="nvidia")
        tree.file(f"/proc/driver/nvidia/gpus/{address}/information", f"GPU UUID: \t GPU-{number}\n")
        tree.file(f"/dev/nvidia{number}", "")
        if number < rails:
            nic = f"0000:{bus + 4:02x}:00.0"
            below = f"0000:{bus + 2:02x}:01.0"
            tree.pci(below, below=(port, up), config=config_space(acs_control=0))
            tree.pci(nic, below=(port, up, below), ids=("0x020700", "0x15b3", "0x1021"), driver="mlx5_core")
            tree.adapter(f"mlx5_{number}", nic)
    tree.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01\n")
    tree.file("/sys/module/nvidia/version", "550.163.01\n")
    tree.file("/proc/meminfo", "MemTotal: 1056312320 kB\nMemAvailable: 996312320 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
    for family in ("tcp", "tcp6"):
        tree.file(f"/proc/net/{family}", "  sl  local_address rem_address   st tx_queue rx_queue\n")
    tree.path("/sys/block/nvme0n1/device").mkdir(parents=True)
    tree.file("/sys/block/nvme0n1/size", "7501476528\n")
    tree.link("/proc/self/ns/pid", "/proc/self/ns/pid:[4026533101]")
    tree.file("/etc/os-release", 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n')
    tree.file("/var/log/kern.log", "Nov 20 08:00:00 gpu kernel: [    0.000000] Linux version 5.15.0-105-generic\n")
    tree.path("/sys/class/net").mkdir(parents=True, exist_ok=True)


def _write(path, text):
    """Whole at once: a node may read it now."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    return fresh.replace(path)
