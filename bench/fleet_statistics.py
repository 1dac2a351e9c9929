"""How long it takes to compare the numbers of a fleet: python bench/fleet_statistics.py [NODES] [METRICS]."""

from __future__ import annotations

import os
import resource
import sys
import time

import numpy as np

from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.metric import Metric
from nodegate.numbers.assessments import assessments, suspects
from nodegate.numbers.peers import Peers

CONDITIONS = {"tool": "nvbandwidth", "tool_version": "0.8", "driver": "580.105.08", "cuda": "13.0"}


def main() -> None:
    nodes, metrics = (int(each) for each in (*sys.argv[1:], *("1250", "100")[len(sys.argv) - 1 :]))
    rng = np.random.default_rng(1)
    values = 480 * rng.normal(1, 0.007, (nodes, metrics))
    measured = {
        f"gpu{node:05}": ("hgx-h100-8", [metric(at, values[node, at]) for at in range(metrics)])
        for node in range(nodes)
    }
    baseline = Baseline("hgx-h100-8", "", "", "", "", Baselines.read().common)

    started = time.process_time()
    peers = Peers.of(measured)
    built = time.process_time()
    counts: dict[str, int] = {}
    for node, (_, own) in measured.items():
        for _, found in assessments(own, baseline=baseline, peers=peers.of_node(node)):
            counts[found.verdict.value] = counts.get(found.verdict.value, 0) + 1
    judged = time.process_time()
    again = suspects(measured, dict.fromkeys(measured, baseline))
    ended = time.process_time()
    print(f"{nodes} nodes x {metrics} metrics: {counts}, {len(again)} suspects")
    print(f"table {built - started:.1f} s, judging {judged - built:.1f} s, ", end="")
    print(f"suspects (both again) {ended - judged:.1f} s CPU, ", end="")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most, load {os.getloadavg()[0]:.1f}")


def metric(at: int, value: float) -> Metric:
    """Eight devices of each quantity."""
    return Metric(f"bench.quantity{at // 8}_gb_per_s", (float(value),), "GB/s", f"GPU {at % 8}", conditions=CONDITIONS)


if __name__ == "__main__":
    main()
