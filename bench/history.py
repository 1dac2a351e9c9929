"""The index of earlier runs as it grows: python bench/history.py [--quick].

Whole fleets of 100 numbers a node are kept run after run, a night apart; after some of them a sample of nodes is read
as a run does. Reading and writing a run must not cost more after many runs than after few, and the file stops growing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nodegate.history import FIRST, NEWEST, History
from nodegate.metric import Metric

NUMBERS = 100
NIGHT_S = 86400.0
CONDITIONS = {"tool": "nvbandwidth", "tool_version": "0.8", "driver": "580.105.08", "cuda": "13.0", "size_bytes": "1e9"}


def main() -> None:
    quick = "--quick" in sys.argv
    nodes, told = (100, (1, 8, 64, 96)) if quick else (1250, (1, 8, 64, 96))
    names = [f"gpu{at:04}" for at in range(nodes)]
    rng = np.random.default_rng(1)
    print(f"{nodes} nodes x {NUMBERS} numbers, the first {FIRST} and the newest {NEWEST} of each are kept")
    print("| runs kept | reading a node | of that CPU | keeping a run | file |\n|---|---|---|---|---|")
    reading: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "history.sqlite")
        for run in range(1, max(told) + 1):
            measured = fleet_of(rng, names)
            started = time.process_time()
            history.keep(f"run {run}", NIGHT_S * run, measured.items())
            keeping = time.process_time() - started
            if run in told:
                wall, cpu = read(history, names[:: max(1, nodes // 100)])
                reading.append(cpu)
                size = history.file.stat().st_size / 1e6
                print(f"| {run} | {wall * 1000:.1f} ms | {cpu * 1000:.1f} ms | {keeping:.1f} s CPU | {size:.0f} MB |")
    slope = (reading[-1] - reading[-2]) / (told[-1] - told[-2]) * 1000
    print(f"From {told[-2]} to {told[-1]} runs a node costs {slope:+.3f} ms more a run (load {os.getloadavg()[0]:.1f})")


def fleet_of(rng: np.random.Generator, names: list[str]) -> dict[str, list[Metric]]:
    values = 480 * rng.normal(1, 0.005, (len(names), NUMBERS))
    return {
        name: [
            Metric(f"bench.quantity{at // 8}_gb_per_s", (float(value),), "GB/s", f"GPU {at % 8}", conditions=CONDITIONS)
            for at, value in enumerate(row)
        ]
        for name, row in zip(names, values, strict=True)
    }


def read(history: History, names: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds for a node."""
    wall, cpu = time.perf_counter(), time.process_time()
    for name in names:
        if len(history.earlier(name, float("inf"))) != NUMBERS:
            raise SystemExit(f"{name} has lost a number")
    return (time.perf_counter() - wall) / len(names), (time.process_time() - cpu) / len(names)


if __name__ == "__main__":
    main()
