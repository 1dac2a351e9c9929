"""What a run over real sshds costs the controller, connection included; of several sizes, so that the slope is seen.

    python -m bench.sshds 64 256 1250              healthy nodes, facts alone (--passive)
    python -m bench.sshds --hostile 64 1250        of 1,000 nodes 50 not reachable, 10 with a driver that hangs,
                                                   20 that send garbage or without end, 5 that lie

The sshds listen on loopback addresses of this machine; each login runs our guard as on a node, and in place of the
probe's document of this machine it sends the one of a made-up HGX H100 node. Processors are shared with the sshds and
what they run: that share is told beside the controller's own. The kinds of hostile nodes, and what must be said of
each, are in tests/support/hostile/kinds.py.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import math
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # the fleets are the tests'
from support.hostile.fleet import HEALTHY, HostileFleet
from support.hostile.measured import Measured, run

from lab.processes import tell, wait_until
from nodegate.transport.call import END_S
from nodegate.transport.turns import LIMIT_TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECT_S, FACTS_S = 10.0, 60.0  # ansible_ssh_timeout, and the usual limit of the facts
EXPECTED = {"accepted": "incomplete"}  # nothing was measured under load, so no node is accepted
STAGE_S = LIMIT_TIMES * CONNECT_S + FACTS_S + END_S  # the longest that a node may take
HEAD = (
    "nodes",
    "controller CPU s",
    "ms a node",
    "memory MiB",
    "threads",
    "wall s",
    "nodes' CPU s",
    "wall over nodes' CPU on all cores",
    "longest node s",
    "stage s",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--hostile", action="store_true", help="with the usual shares of hostile nodes")
    parser.add_argument("--work", type=Path, default=None, help="where the fleet's files go; default: a new folder")
    asked, arguments = parser.parse_known_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    costs, odd = {}, 0
    for count in asked.nodes:
        with tempfile.TemporaryDirectory(dir=asked.work) as name:
            costs[count], wrong = _one(Path(name), count, [*arguments, "--passive"], hostile=asked.hostile)
        odd += len(wrong)
        print("".join(f"  not as expected: {line}\n" for line in wrong), end="", flush=True)
    for small, large in itertools.pairwise(sorted(costs)):
        slope = math.log(costs[large] / costs[small]) / math.log(large / small)
        each = 1000 * (costs[large] - costs[small]) / (large - small)
        print(f"{small:,} to {large:,}: {each:.1f} ms of CPU for each further node, slope {slope:.2f}")
    sys.exit(1 if odd else 0)


def _one(folder: Path, count: int, arguments: list[str], *, hostile: bool) -> tuple[float, list[str]]:
    """Run over one fleet and print its line. Returns the controller's CPU time, and what was not said as it must be."""
    with HostileFleet(folder, count if hostile else [HEALTHY] * count) as fleet:
        (folder / "hosts.yaml").write_text(fleet.inventory(CONNECT_S))
        before = _cpu_s(fleet.pids())
        cost = run(folder, ["-q", "--tb=no", *arguments])
        tell(fleet.descendants(), signal.SIGCONT)
        wait_until(lambda: not fleet.descendants(), limit_s=60)
        nodes_cpu_s = _cpu_s(fleet.pids()) - before
        if not (cost.folder / "report.json").exists():
            raise SystemExit(cost.said[-3000:])
        print(_line(count, cost, nodes_cpu_s), flush=True)
        print(f"  {cost.said.strip().splitlines()[-1][:150]}")
        return cost.cpu_s, _not_as_expected(fleet, cost)


def _line(count: int, cost: Measured, nodes_cpu_s: float) -> str:
    facts = cost.facts().values()
    begun = min(each["started_epoch_s"] for each in facts)
    stage_s = max(each["started_epoch_s"] + each["duration_s"] for each in facts) - begun
    longest_s = max(each["duration_s"] for each in facts)
    at_least_s = nodes_cpu_s / (os.cpu_count() or 1)
    cells = (
        f"{count:,}",
        f"{cost.cpu_s:.1f}",
        f"{1000 * cost.cpu_s / count:.0f}",
        f"{cost.memory_mib:.0f}",
        f"{cost.threads}",
        f"{cost.wall_s:.1f}",
        f"{nodes_cpu_s:.1f}",
        f"{cost.wall_s / at_least_s:.2f}",
        f"{longest_s:.1f} of {STAGE_S:.0f}",
        f"{stage_s:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _cpu_s(pids: Iterable[int]) -> float:
    """What these servers, and all logins on them that have ended, have used so far."""
    spent = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system + each.children_user + each.children_system for each in spent)


def _not_as_expected(fleet: HostileFleet, cost: Measured) -> list[str]:
    """A line for each kind of nodes with another verdict than it must have."""
    verdicts = {node["node"]: node["verdict"] for node in cost.report()["nodes"]}
    found: dict[str, collections.Counter[str]] = {}
    for node in fleet.nodes:
        expected = EXPECTED.get(node.kind.verdict, node.kind.verdict)
        if (verdict := verdicts.get(node.name, "missing")) != expected:
            found.setdefault(node.kind.name, collections.Counter())[verdict] += 1
    return [f"{name}: {dict(counted)}" for name, counted in found.items()]


if __name__ == "__main__":
    main()
