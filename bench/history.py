"""The fleet's record as it grows: python bench/history.py [--quick].

Nights of a whole fleet are kept, one after the other: 150 numbers a node, 8 GPUs and 8 adapters with serial numbers, 40
versions, a fault or two in a hundred node-nights, now and then a board that moves or a driver that changes. After some
of them a sample of nodes is read as a run reads it, and `nodegate history` asked. The file must stop growing.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nodegate import cli
from nodegate.metric import Metric
from nodegate.past.event import XID, Event
from nodegate.past.keys import CHASSIS, KeptNode, KeptRun, Keys, Placed
from nodegate.past.record import FleetRecord
from nodegate.past.series import FIRST, NEWEST
from nodegate.records import part
from nodegate.records.cause import Cause, CheckFinding, Class, Severity
from nodegate.records.finding import Finding
from nodegate.records.run import NodeReport, Run
from nodegate.records.verdict import NodeVerdict, Verdict

NUMBERS, GPUS, NICS = 150, 8, 8
NIGHT_S, BEGIN_S = 86400.0, 1_780_000_000.0
FAULTY = 0.015  # of the node-nights
_TOOL = {"tool": "nvbandwidth", "tool_version": "0.8", "cuda": "13.0", "size_bytes": "1e9"}
CLI = "import sys; from nodegate.cli import main; sys.exit(main())"


class Fleet:
    """Made-up nodes, night after night."""

    def __init__(self, count: int) -> None:
        self.names = [f"gpu{at:04}" for at in range(count)]
        self._rng = np.random.default_rng(1)
        self._gpus = {name: [f"165{at:05}{slot:05}" for slot in range(GPUS)] for at, name in enumerate(self.names)}
        self._drivers = dict.fromkeys(self.names, "580.105.08")
        self._levels = 480 * self._rng.normal(1, 0.01, (count, NUMBERS))

    def night(self, number: int) -> KeptRun:
        """What a run over all nodes keeps."""
        one, other = self._rng.choice(self.names, 2, replace=False)
        self._gpus[one][0], self._gpus[other][0] = self._gpus[other][0], self._gpus[one][0]
        if number % 20 == 19:
            self._drivers[one] = f"580.105.{number}"
        started = BEGIN_S + NIGHT_S * number
        run = Run(f"night {number}", "nightly", started, started + 600.0, "0.4")
        values = self._levels * self._rng.normal(1, 0.005, self._levels.shape)
        at = {name: place for place, name in enumerate(self.names)}
        nodes = [self._node(name, started) for name in self.names]
        return KeptRun(run, f"/runs/{number}", nodes, frozenset(), lambda name: self._metrics(name, values[at[name]]))

    def keys(self, name: str) -> Keys:
        """By what its parts are known."""
        return Keys(name, self._placed(name))

    def _placed(self, name: str) -> tuple[Placed, ...]:
        nics = [Placed(f"mlx5_{at}", f"{name}:{at:02}00:a088") for at in range(NICS)]
        gpus = [Placed(f"GPU {at}", serial) for at, serial in enumerate(self._gpus[name])]
        return (Placed(CHASSIS, f"S{name}X"), *gpus, *nics)

    def _node(self, name: str, started: float) -> KeptNode:
        bad = self._rng.random() < FAULTY
        verdict = NodeVerdict.REJECTED if bad else NodeVerdict.ACCEPTED
        traits = {"driver version": self._drivers[name], **{f"firmware {at}": "28.43.2566" for at in range(39)}}
        causes = [_cause(name, "not_judged", "nothing says what is right of it", self._gpus[name][1])]
        if bad:
            said = f"GPU 0: lost at {started:.0f}"
            causes.append(_cause(name, "gpu_lost", said, self._gpus[name][0]))
        xids = [Event(started - 60.0, XID, name, f"S/N {self._gpus[name][0]}", "kernel log", "79")] if bad else []
        node = NodeReport(name, verdict, "hgx-h100-8")
        return KeptNode(node, not bad, tuple(causes), self._placed(name), traits, tuple(xids))

    def _metrics(self, name: str, values: np.ndarray) -> list[Metric]:
        conditions = {**_TOOL, "driver": self._drivers[name]}
        devices = [*(f"GPU {at}" for at in range(GPUS)), *(f"mlx5_{at}" for at in range(NICS))]
        return [
            Metric(f"bench.quantity{at // 16}", (float(value),), "GB/s", devices[at % 16], conditions=conditions)
            for at, value in enumerate(values)
        ]


def _cause(name: str, condition: str, said: str, serial: str) -> Cause:
    found = CheckFinding("gpu.lost", Finding(part.gpu(0, serial=serial), Verdict.FAIL, text=said, action="replace it"))
    return Cause(condition, (part.gpu(0, serial=serial),), Severity.LOST, Class.GPU, found, nodes=(name,))


def main() -> None:
    quick = "--quick" in sys.argv
    count, told = (100, (1, 8, 60)) if quick else (1250, (1, 8, 60))
    fleet = Fleet(count)
    print(f"{count} nodes x {NUMBERS} numbers, the first {FIRST} and the newest {NEWEST} of each are kept")
    columns = ["nights kept", "reading a node, CPU", "`nodegate history`", "in one process", "keeping a night, CPU"]
    print(f"| {' | '.join((*columns, 'wall', 'file'))} |\n{'|---' * (len(columns) + 2)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        record = FleetRecord(Path(folder) / "fleet.sqlite")
        for night in range(1, max(told) + 1):
            kept = fleet.night(night)
            wall, cpu = time.perf_counter(), time.process_time()
            record.keep(kept)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if night in told:
                size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
                reading, (asking, inside) = read(record, fleet), ask(record.file, fleet.names[len(fleet.names) // 2])
                row = f"{reading * 1000:.1f} ms | {asking:.2f} s | {inside:.2f} s | {cpu:.1f} s | {wall:.1f} s"
                print(f"| {night} | {row} | {size:.0f} MB |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


def read(record: FleetRecord, fleet: Fleet) -> float:
    """CPU seconds for a node, as a run reads it."""
    names = fleet.names[:: max(1, len(fleet.names) // 100)]
    devices = [*(f"GPU {at}" for at in range(GPUS)), *(f"mlx5_{at}" for at in range(NICS))]
    cpu = time.process_time()
    found = sum(len(record.known(fleet.keys(name), devices, float("inf"))) for name in names)
    if found < 0.95 * NUMBERS * len(names):  # a node that had a fault on the first night has none yet
        raise SystemExit(f"numbers are lost {record.lost}")
    return (time.process_time() - cpu) / len(names)


def ask(file: Path, name: str) -> tuple[float, float]:
    """Seconds of `nodegate history NODE`, best of three: with the start of Python, and inside a running one."""
    words = ["history", name, "--record", str(file)]
    command, inside = [], []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", CLI, *words], check=True, capture_output=True)
        command.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            cli.main(words)
        inside.append(time.perf_counter() - begun)
    return min(command), min(inside)


if __name__ == "__main__":
    main()
