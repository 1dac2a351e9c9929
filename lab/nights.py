"""Ten nights of `nodegate nightly` over lab nodes, by a clock that is set: what is printed, sent and kept in each.

Night 3: a GPU falls off the bus of gpu-2, and comes back before night 7. Night 5: a GPU of gpu-3 and one of gpu-4 have
changed places. gpu-5 has a job in every night.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lab import clock
from lab.nodes import gpu_faults, gpus
from lab.nodes.fault import served
from lab.run import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.nodes.node import LabNode
    from lab.nodes.nodes import Nodes

NIGHTS, NODES = 10, 5
BROKEN, MENDED, MOVED = 3, 7, 5  # nights
FIRST_S = 1_803_952_800.0  # 2027-03-02 02:00 UTC
DAY_S = 86400.0
_RUN_ID = re.compile(r"(\d{8}T)\d{6}Z")
_FAMILIES = ("nodegate_node_verdict", "nodegate_cause{")  # of metrics.prom


class Site:
    """The folder from which the nights are run, with the clock of each."""

    def __init__(self, lab: Nodes, folder: Path) -> None:
        self._lab, self._folder = lab, folder
        folder.mkdir()
        (folder / "hosts.yaml").write_text(lab.inventory([node.name for node in lab.nodes], {}))
        options = "[-p, lab.slow_probe, --passive]"  # their GPUs cannot burn
        (folder / "site.yaml").write_text(f"night: {{inventory: hosts.yaml, every: 5d, options: {options}}}\n")
        (folder / "pager").write_text("#!/bin/sh\nexec cat >told\n")
        (folder / "pager").chmod(0o755)
        self._later_s = 0.0

    def set_clock(self, night: int) -> None:
        """It is two o'clock of this night, here and on the nodes."""
        self._later_s = FIRST_S + (night - 1) * DAY_S - time.time()
        for node in self._lab.nodes:
            clock.set_on(node, self._later_s)

    def nodegate(self, *words: str) -> str:
        """What a command prints, with its exit code, as it is on a terminal."""
        done = subprocess.run(
            self._lab.space.in_network(sys.executable, "-m", "nodegate.cli", *words),
            cwd=self._folder,
            env={**clock.environment(self._later_s), "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        shown = f"$ nodegate {' '.join(words)}\n{done.stdout}{done.stderr}".rstrip()
        return _on_any_machine(f"{shown}\n[exit code {done.returncode}]")

    def told(self) -> str:
        """The notice of this night, if there was one; then it is forgotten."""
        file = self._folder / "told"
        if not file.exists():
            return "(none)"
        text = file.read_text().rstrip()
        file.unlink()
        return _on_any_machine(text.replace(f"{self._folder.resolve()}/", ""))

    def metrics(self) -> str:
        """The lines of metrics.prom about verdicts and causes."""
        file = self._folder / "reports/latest/metrics.prom"
        return "\n".join(line for line in file.read_text().splitlines() if line.startswith(_FAMILIES))


def _on_any_machine(text: str) -> str:
    """Without the seconds at which runs began and the name of this machine."""
    return _RUN_ID.sub(r"\g<1>0200..Z", text).replace(f" on {socket.gethostname()},", " on controller,")


def swap_boards(one: LabNode, other: LabNode, gpu: int = 2) -> None:
    """A GPU of one node and that of another change places."""
    for node, came_from in ((one, other), (other, one)):
        scenario = gpus.scenario(node)
        scenario.set(gpu, "uuid", gpus.uuid(came_from, gpu)).set(gpu, "serial", gpus.serial(came_from, gpu))
        scenario.write(node.root / gpus.SCENARIO)
        file = node.hardware / "proc/driver/nvidia/gpus" / gpus.gpu_addresses(node)[gpu] / "information"
        file.write_text(file.read_text().replace(gpus.uuid(node, gpu), gpus.uuid(came_from, gpu)))


def pages(lab: Nodes, folder: Path) -> Iterator[str]:
    """The page docs/evidence/ten-nights.md in pieces, as the nights go by."""
    site, (_, two, three, four, five) = Site(lab, folder), lab.nodes
    yield _HEAD
    with ExitStack() as lasting, ExitStack() as broken:
        lasting.enter_context(gpu_faults.job_left(five))
        for night in range(1, NIGHTS + 1):
            if night == BROKEN:
                broken.enter_context(served(two, gpus.scenario(two).lose(3)))
            if night == MOVED:
                swap_boards(three, four)
            if night == MENDED:
                broken.close()
            site.set_clock(night)
            printed = site.nodegate("nightly", "--site", "site.yaml", "--notice", "./pager")
            diff = site.nodegate("diff", "--since-last-night") if night > 1 else ""
            yield _night(night, printed, site.told(), diff, site.metrics())
        yield "## After the tenth night\n\n"
        for words in (("history", "gpu-2"), ("history", "gpu-5"), ("history", "gpu-3"), ("lemons",)):
            yield _block(site.nodegate(*words))


def _night(night: int, printed: str, told: str, diff: str, metrics: str) -> str:
    parts = [f"## Night {night}\n\n", _block(printed), "The notice:\n\n", _block(told)]
    parts += [_block(diff)] if diff else []
    return "".join([*parts, "metrics.prom, verdicts and causes:\n\n", _block(metrics)])


def _block(text: str) -> str:
    return f"```\n{text}\n```\n\n"


_HEAD = """# Ten nights

`nodegate nightly` over five nodes of the lab (systemd, sshd, NVIDIA's own nvidia-smi over a mock of
NVML), with the clocks of nodes and controller set to two o'clock of each night. Before night 3 a
GPU falls off the bus of gpu-2, and it is back before night 7. Before night 5 a GPU of gpu-3 and one
of gpu-4 have changed places. gpu-5 has a job in every night, and `night.every` is 5 days. A test
of `make lab` does these nights again and compares every line.

"""
