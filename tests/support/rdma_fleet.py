"""Nodes on this machine with made-up RDMA adapters, and a stand-in for perftest that really listens and connects."""

from __future__ import annotations

import copy
import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.machine import Machine, facts_of
from support.sshd import NODE_PYTHON
from support.tool_folder import ToolFolder

from nodegate.errors import CannotMeasure
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import Target
from nodegate.node import Connection, Node
from nodegate.transport import Options, connect

STAND_IN = Path(__file__).with_name("fake_tools") / "perftest"
TOOLS = ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat")
LENGTH = Durations(burn_s=1, copies_s=1, link_s=1, collective_s=1, group_s=1, rounds=3)
PORTS_OF_A_NODE = 100


class Crew:
    """Real threads, as in a run."""

    def __init__(self):
        self.cancelled = False
        self.asked: list[list[str]] = []

    def at_once(self, jobs):
        self.asked.append(list(jobs))
        with ThreadPoolExecutor(max(1, len(jobs))) as threads:
            futures = {name: threads.submit(job) for name, job in jobs.items()}
        return {name: _result(future) for name, future in futures.items()}


def _result(future):
    try:
        return future.result()
    except CannotMeasure as why:
        return why


@dataclass
class RdmaFleet:
    """A few nodes with the same rails; faults are planted by `device` before `targets`."""

    folder: Path
    names: tuple[str, ...] = ("gpu01", "gpu02")
    rails: int = 2
    durations: Durations = LENGTH
    version: str = "25.01"
    cuda: bool = False
    first_port: int = field(default_factory=lambda: random.SystemRandom().randrange(26_000, 32_000, PORTS_OF_A_NODE))
    faults: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    tools: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sessions: ExitStack = field(default_factory=ExitStack)  # closes them

    def __post_init__(self):
        for name in self.names:
            self.machines[name] = machine = Machine.pcie_l40s(name)
            for adapter in list(machine.sections["infiniband"])[self.rails :]:
                del machine.sections["infiniband"][adapter]

    def device(self, node, device, **settings):
        """Change what an adapter does: gbps=120.0, fault="hang", slow_with={"gpu02": 90.0}."""
        self.faults.setdefault((node, device), {}).update(settings)
        return self

    def targets(self):
        return [self._site(place, name) for place, name in enumerate(self.names)]

    def _site(self, place, name):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        devices = {}
        for adapter in self.machines[name].sections["infiniband"]:
            devices[adapter] = {"gbps": 195.5, "us": 1.9} | self.faults.get((name, adapter), {})
        settings = {"node": name, "version": self.version, "cuda": self.cuda, "devices": devices}
        (folder / "rdma.json").write_text(json.dumps(settings))
        for tool in TOOLS:
            if not (folder / tool).exists():
                (folder / tool).symlink_to(STAND_IN)
        expected = {"rdma_port": self.first_port + place * PORTS_OF_A_NODE}
        node = Node(name, Connection(transport="local", address="127.0.0.1", python=NODE_PYTHON), expected=expected)
        without = set(TOOLS).difference(self.tools.get(name, TOOLS))
        tools = ToolFolder(folder, without, (NODE_PYTHON, "-I", "-S"))
        session = self.sessions.enter_context(closing(connect(node, Options())))
        return Target(node, session, facts_of(copy.copy(self.machines[name])), tools, self.durations)


def another_length(**changes):
    return replace(LENGTH, **changes)
