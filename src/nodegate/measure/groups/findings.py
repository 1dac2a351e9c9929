"""What the checks of NCCL over several nodes share: whose fault a bad launch is, and a finding for each collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from nodegate import part
from nodegate.finding import Limit, NumberLimit
from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.numbers import metric_findings
from nodegate.subjects.rdma import rails
from nodegate.unknown import Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.baseline.baseline import Baseline
    from nodegate.measure.groups.result import GroupRun, NcclGroups
    from nodegate.numbers.peers import NodePeers
    from nodegate.probe.rdma import Rdma
    from nodegate.verdicts import Verdicts

Whose = Literal["here", "either", "other", "open"]
SHARE = "nccl.group_share_of_rate_percent"
_NAMED = "keep the node out of jobs; measure it alone (nccl, rdma_bandwidth), look at its kernel log and at its NICs"
_SEARCH = "see what the other nodes of the group say; run the command of the evidence file with fewer nodes"


def skip_alone(verdicts: Verdicts, groups: NcclGroups) -> None:
    """A node without another one has nothing to be judged.

    Raises:
        NotJudged: it is so.
    """
    if groups.alone:
        verdicts.skip(groups.alone)


def whose(groups: NcclGroups, run: GroupRun) -> Whose:
    """Whose fault a bad launch is: this node's, one of two, another one's that is named, or not known."""
    if run.partners_well or groups.node in run.blamed:
        return "here"
    if groups.excuses(run):
        return "other"
    return "either" if run.count == 2 and not run.searched and not run.blamed else "open"


def judge_endings(
    verdicts: Verdicts,
    groups: NcclGroups,
    is_bad: Callable[[GroupRun], bool],
    say: Callable[[GroupRun], str],
    good: str,
) -> None:
    """A finding for each collective: what is bad, in any attempt, and whose fault it is; else that it was well."""
    for what in COLLECTIVES:
        mine = [run for run in groups.runs if run.what == what and (run.kind != "part" or run.partners_well)]
        bad = [run for run in mine if is_bad(run)]
        whole = [run for run in mine if run.ending == "whole" and not is_bad(run)]
        if bad:
            _judge_bad(verdicts, groups, what, bad, say)
        elif whole:
            shown = ", ".join(dict.fromkeys(run.group for run in whole))
            verdicts.passed(part=part.collective(what), text=f"{good}: {shown}", observed=0)
        else:
            reason, step = why_not(groups, what)
            verdicts.unknown(part=part.collective(what), quantity="result", reason=reason, action=step)


def _judge_bad(
    verdicts: Verdicts, groups: NcclGroups, what: str, bad: list[GroupRun], say: Callable[[GroupRun], str]
) -> None:
    order: tuple[Whose, ...] = ("here", "either", "open", "other")
    run = min(bad, key=lambda each: (order.index(whose(groups, each)), each.kind == "part"))
    fault, said = whose(groups, run), f"{run.group}: {say(run)}"
    stuck = f"; it cannot be killed: {run.stuck[0]}" if run.stuck else ""
    if fault == "here":
        message = f"{said}; with nodes that are well it is the same: it is this node{stuck}"
        verdicts.found(
            Verdict.FAIL, part=part.collective(what), text=message, action=_NAMED, quantity="group", observed=run.ending
        )
    elif fault == "either":
        message = f"{said}; it is this node, the other one or the path: there was no third node{stuck}"
        verdicts.found(
            Verdict.FAIL, part=part.collective(what), text=message, action=_NAMED, quantity="group", observed=run.ending
        )
    elif fault == "other":
        named = ", ".join(groups.excuses(run))
        verdicts.passed(
            part=part.collective(what), text=f"{said}; it is {named}, and this node is well without", observed=0
        )
    else:
        found = f"; {run.searched}" if run.searched else ""
        named = f"; {', '.join(run.blamed)} is bad, and this node was not seen to be well" if run.blamed else ""
        verdicts.unknown(
            part=part.collective(what),
            quantity="whose fault it is",
            reason=f"{said}{found}{named}{stuck}",
            action=_SEARCH,
        )


def why_not(groups: NcclGroups, what: str) -> tuple[str, str]:
    """Why a collective gave nothing, and what to do."""
    for run in (*groups.of(what), *groups.runs):
        if run.why:
            return f"{run.group}: {run.what}: {run.why}", run.next_step
    if groups.failed:
        return groups.failed[-1].reason, groups.failed[-1].next_step
    return "not run", "measure this node again"


def judge_bandwidth(
    verdicts: Verdicts,
    groups: NcclGroups,
    whats: tuple[str, ...],
    kinds: tuple[str, ...],
    *,
    baseline: Baseline,
    peers: NodePeers,
    remedy: str,
) -> None:
    """The bus bandwidth of some collectives over some kinds of groups; each that gave none is an error of its own."""
    from nodegate.measure.groups.result import NAMES  # noqa: PLC0415 - at judging only

    chosen = []
    for what in whats:
        metrics = [each for each in groups.named(NAMES[what]) if each.conditions.get("group") in kinds]
        chosen += metrics
        excused = [run for run in groups.of(what) if run.kind in kinds and groups.excuses(run)]
        if not metrics and excused:
            named = ", ".join(groups.excuses(excused[0]))
            verdicts.passed(
                part=part.collective(what), text=f"{excused[0].group} is spoilt by {named}", observed="another node"
            )
        elif not metrics:
            reason, step = why_not(groups, what)
            verdicts.unknown(part=part.collective(what), quantity="bus bandwidth", reason=reason, action=step)
    if chosen:
        metric_findings.judge(verdicts, chosen, baseline=baseline, peers=peers, remedy=remedy)


def has_kind(groups: NcclGroups, *kinds: str) -> bool:
    """Whether groups of these kinds were launched at all."""
    return any(run.kind in kinds for run in groups.runs)


def least_by_rate(rdma: Rdma, baseline: Baseline) -> NumberLimit | Unknown:
    """What all_reduce must reach by the rates of the node's own rails, in GB/s.

    Raises:
        NotJudged: no share of the rate is stored.
    """
    share = baseline.limit(SHARE)
    ports = rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))
    total = 0.0
    for port in ports:
        if isinstance(port.rate_gbps, Unknown):
            return port.rate_gbps
        total += port.rate_gbps
    percent = float(share.value) if isinstance(share.value, (int, float)) else 0.0
    source = f"{percent:g} % of {len(ports)} rails' {total:g} Gb/s together, {share.source}"
    return Limit(round(total / 8.0 * percent / 100.0, 2), "GB/s", source)
