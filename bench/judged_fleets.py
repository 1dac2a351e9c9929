"""What nodegate says of the fleets that `bench/fleets.py` wrote: python bench/judged_fleets.py FOLDER.

As many fleets at once as there are cores. A row a cell: good nodes rejected and warned, planted ones rejected and told
(rejected or warned), each with the 95 % interval of Wilson (1927), and the looks that were taken. A node that is alone
has the values that the burn has on average as its baseline, measured elsewhere.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.baseline.entry import Entry
from nodegate.measure.durations import OF_PROFILE
from nodegate.metric import Metric
from nodegate.numbers.assessments import assessments, suspects, with_their_like
from nodegate.numbers.peers import Peers
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict, worst

LOOKS = OF_PROFILE[Profile.DELIVERY].looks
PLATFORM = "hgx-h100-8"
BASELINE = Baseline(PLATFORM, "", "", "", "", Baselines.read().common)
PLACES = [f"GPU {place}" for place in range(8)]
NAMES = {
    "burn": [f"burn.{dtype}_tflops" for dtype in ("bf16", "fp8", "fp32")],
    "copies": [
        f"memory.{name}_gb_per_s"
        for name in (
            "host_to_device",
            "host_to_device_at_once",
            "device_to_host",
            "device_to_host_at_once",
            "device",
            "peer",
        )
    ],
    "busbw": [
        f"nccl.{name}_gb_per_s"
        for name in ("all_reduce", "all_reduce_ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
    ],
}

STORED = {
    name: Entry(name, value, "TFLOPS", "measured elsewhere", "at least", 0.1)
    for name, value in zip(NAMES["burn"], (745, 1400, 54), strict=True)
}
ALONE = replace(BASELINE, entries={**BASELINE.entries, **STORED})


def metrics_of(measurement: str, looks: np.ndarray) -> list[Metric]:
    """The numbers of one node; `looks` has a row a look."""
    devices = [""] if measurement == "busbw" else PLACES
    unit = "TFLOPS" if measurement == "burn" else "GB/s"
    columns = looks.astype(float).T.tolist()
    return [
        Metric(name, tuple(columns[at * len(devices) + place]), unit, device)
        for at, name in enumerate(NAMES[measurement])
        for place, device in enumerate(devices)
    ]


def judged(measurement: str, drawn: np.ndarray) -> tuple[list[Verdict], int]:
    """The verdict on each node, and how many looks were taken at each."""
    names = [f"gpu{at:05}" for at in range(drawn.shape[1])]
    baseline, taken = ALONE if len(names) == 1 else BASELINE, LOOKS[0]
    baselines = dict.fromkeys(names, baseline)
    while True:
        measured = {name: (PLATFORM, metrics_of(measurement, drawn[:taken, at])) for at, name in enumerate(names)}
        more = [each for each in LOOKS if each > taken]
        if not more or not with_their_like(suspects(measured, baselines), measured):
            break
        taken = more[0]
    peers = Peers.of(measured)
    told = [
        worst(each.verdict for _, each in assessments(metrics, baseline=baseline, peers=peers.of_node(name)))
        for name, (_, metrics) in measured.items()
    ]
    return told, taken


def interval(part: int, whole: int) -> str:
    """A share in per cent with its 95 % interval."""
    if not whole:
        return "-"
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    reach = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    return f"{100 * p:.2f} [{max(0.0, 100 * (middle - reach)):.2f}-{100 * (middle + reach):.2f}] of {whole}"


def judged_fleet(path: Path) -> tuple[str, list[tuple[bool, Verdict]], list[int], float]:
    """The name of its cell, whether each node is planted and what is said of it, the looks taken, seconds of CPU."""
    began, drawn, looks = time.process_time(), np.load(path), []
    found = [Verdict.PASS] * len(drawn["bad"])
    for measurement in NAMES:
        if measurement in drawn:
            told, taken = judged(measurement, drawn[measurement])
            looks.append(taken)
            found = [worst(pair) for pair in zip(found, told, strict=True)]
    pairs = list(zip(map(bool, drawn["bad"]), found, strict=True))
    return str(drawn["name"]), pairs, looks, time.process_time() - began


def main() -> None:
    cells: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        cells[path.name[:2]].append(path)
    print("| cell | good rejected % | good warned % | planted rejected % | planted told % | looks | CPU s |")
    print("|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor() as pool:
        for paths in cells.values():
            print(row_of(list(pool.map(judged_fleet, paths))), flush=True)


def row_of(fleets: Sequence[tuple[str, list[tuple[bool, Verdict]], list[int], float]]) -> str:
    """The row of a cell."""
    names, told, looks, seconds = zip(*fleets, strict=True)
    counts, row = Counter(each for fleet in told for each in fleet), [names[0]]
    for bad in (False, True):
        whole = sum(counts[bad, each] for each in Verdict)
        fails, warns = counts[bad, Verdict.FAIL], counts[bad, Verdict.WARN]
        row += [interval(fails, whole), interval(warns + (fails if bad else 0), whole)]
    return f"| {' | '.join(row)} | {np.mean([each for fleet in looks for each in fleet]):.1f} | {sum(seconds):.0f} |"


if __name__ == "__main__":
    main()
