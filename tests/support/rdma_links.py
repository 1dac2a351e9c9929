"""RDMA measurements for tests: what the programs of a link print, as a node keeps it, and what a check says of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.machine import Machine, facts_of
from support import cases
from support.attempts import having

from nodegate.measure.rdma import result as rdma_result
from nodegate.numbers.peers import Peers
from nodegate.records.program_run import Attempt, LinkPlan, Plan, ProgramRun

RECORDINGS = Path(__file__).resolve().parents[1] / "tools" / "recordings" / "perftest"
NODE, PARTNERS = "gpu01", ("gpu02", "gpu03", "gpu04")
RAILS = tuple(f"mlx5_{number}" for number in range(8))
TESTS = {"ib_write_bw": 391.5, "ib_read_bw": 388.25, "ib_write_lat": 1.68, "ib_read_lat": 2.41}
LIMITS = """
  rdma.rails: {value: 8, unit: ports, source: test}
  rdma.rate_gbps: {value: 400, unit: Gb/s, source: test}
  rdma.write_gbps: {value: 380, unit: Gb/s, source: test, direction: at least}
  rdma.read_gbps: {value: 370, unit: Gb/s, source: test, direction: at least}
  rdma.write_latency_us: {value: 2.5, unit: µs, source: test, direction: at most}
  rdma.read_latency_us: {value: 4.5, unit: µs, source: test, direction: at most}
  rdma.inside_gbps: {value: 380, unit: Gb/s, source: test, direction: at least}
  rdma.gpu_write_gbps: {value: 360, unit: Gb/s, source: test, direction: at least}
  rdma.share_of_rate_percent: {value: 90, unit: "%", source: test}
  rdma.both_ways_share_of_rate_percent: {value: 180, unit: "%", source: test}
  rdma.latency_tier_percent: {value: 75, unit: "%", source: test}
"""


def printed(tool, value, device):
    """What a client prints."""
    name = "latency.txt" if tool.endswith("_lat") else "healthy.txt"
    written = (RECORDINGS / name).read_text()
    written = re.sub(r"Device( *): \S+", rf"Device\1: {device}", written)
    return written.replace(" 1.68 ", f" {value} ").replace("391.87", str(value))


def link(tool, device, peer, value=None, *, text="", stderr="", timed_out=False, cannot="", **fields):
    """One run as the node of `device` keeps it. Without a value, what stands in `text`, or in that recording."""
    if value is not None:
        text = printed(tool, value, device)
    elif text.endswith(".txt"):
        text = (RECORDINGS / text).read_text()
    about = LinkPlan(peer, device, device=device, round=peer[-1])
    ran = ProgramRun(
        tool,
        (tool, "-d", device),
        stdout=text,
        stderr=stderr,
        timed_out=timed_out,
        exit_code=None if timed_out else 0,
        duration_s=25.0,
        cannot=cannot,
        next_step="look at the other node" if cannot else "",
        plan=Plan(version="6.24", link=about),
    )
    return having(ran, **fields)


Links = dict[tuple[str, str, str], ProgramRun]  # tool, device, peer


def healthy(partners=PARTNERS):
    """Every rail with every partner."""
    return {
        (tool, device, peer): link(tool, device, peer, value, peer_best=value)
        for tool, value in TESTS.items()
        for device in RAILS
        for peer in partners
        if not tool.endswith("_lat") or peer == partners[0]
    }


def attempt(links, *, partners=3, rails=RAILS, more=(), missing=()):
    """What one attempt leaves on the node."""
    runs = (*links.values(), *more)
    return Attempt(runs, rails=tuple(rails), partners=partners, missing=tuple(missing))


@dataclass(frozen=True)
class LinkCase(cases.Case):
    """What was measured on one node, and what one check must say of it, word for word."""

    change: Callable[[Links], object] = lambda links: None
    attempts: Callable[[Links], Sequence[Attempt]] = lambda links: [attempt(links)]
    machine: Callable[[Machine], object] = lambda machine: None
    limits: Mapping[str, object] = field(default_factory=dict)  # None takes a limit away
    fleet: Mapping[str, float] = field(default_factory=dict)  # what each other node of the run reached with each rail
    slow_rails: Mapping[tuple[str, str], float] = field(default_factory=dict)  # except some of theirs


def judged(case):
    """What the check says."""
    machine, links = Machine.hgx_h100(NODE), healthy()
    case.machine(machine)
    case.change(links)
    given = {
        "rdma_bandwidth": lambda: rdma_result.parse(case.attempts(links)),
        "peers": lambda: _peers(case, links),
        "baseline": cases.h100_with(LIMITS, case.limits),
    }
    return cases.judged_with(case.check, facts_of(machine), given)


def _peers(case, links):
    """The fleet as the node sees it, which is empty in most cases."""
    if not case.fleet:
        return Peers.of({}).of_node(NODE)
    mine = rdma_result.parse(case.attempts(links)).metrics
    others = {
        name: [replace(each, values=(case.slow_rails.get((name, each.device), value),)) for each in mine]
        for name, value in case.fleet.items()
    }
    return Peers.of({name: ("hgx-h100-8", found) for name, found in {NODE: mine, **others}.items()}).of_node(NODE)
