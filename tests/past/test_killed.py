"""A run that is killed (SIGKILL) at any moment leaves the record whole: each run is in it with all its nodes or not."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from support.remembered import keep

from nodegate.metric import Metric
from nodegate.past.record import FleetRecord

KILLS, NODES, NUMBERS = 8, 20, 50
KEEPING = f"""
import sys
from pathlib import Path
from support.remembered import keep
from nodegate.metric import Metric
from nodegate.past.record import FleetRecord
file, begin = Path(sys.argv[1]), int(sys.argv[2])
metrics = [Metric(f"bench.quantity{{at}}", (1.0,), "GB/s") for at in range({NUMBERS})]
for run in range(begin, begin + 1000):
    keep(FleetRecord(file), f"run {{run}}", float(run), {{f"gpu{{at:02}}": metrics for at in range({NODES})}})
    print(run, flush=True)
"""


def kept_until_killed(file: Path, begin: int, seconds: float) -> list[int]:
    """The runs that were told to be kept before the process was killed, some time after the first."""
    command = [sys.executable, "-c", KEEPING, str(file), str(begin)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        time.sleep(seconds)
        running.kill()
        return [int(line) for line in (first, *running.stdout) if line.endswith("\n")]


def test_what_was_kept_is_there_and_nothing_is_half_there(tmp_path: Path) -> None:
    chance, file = random.Random(7), tmp_path / "fleet.sqlite"  # noqa: S311
    told: list[int] = []
    for kill in range(KILLS):
        told += kept_until_killed(file, 1000 * kill, chance.random() * 0.3)
    assert len(told) >= KILLS
    with contextlib.closing(sqlite3.connect(file)) as base:
        assert base.execute("pragma integrity_check").fetchall() == [("ok",)]
        names = {name for (name,) in base.execute("select name from runs")}
        nodes = base.execute("select count(*) from decisions group by run").fetchall()
        numbers = base.execute("select run, count(*) from numbers group by run").fetchall()
    assert names >= {f"run {run}" for run in told}
    assert set(nodes) == {(NODES,)}
    assert {count for _, count in numbers} <= {NODES * NUMBERS}
    keep(FleetRecord(file), "after", 1e6, {"gpu00": [Metric("bench.quantity0", (1.0,), "GB/s")]})
