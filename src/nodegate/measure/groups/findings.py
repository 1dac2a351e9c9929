"""Findings of NCCL over several nodes: whose fault a bad launch is, and a finding for each collective."""

from collections.abc import Callable
from dataclasses import replace

from nodegate.baseline.baseline import Baseline
from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.result import NAMES, GroupRun, NcclGroups, Whose, is_sick, lost, whose
from nodegate.metric import Metric
from nodegate.numbers import metric_findings
from nodegate.numbers.assessments import Bounds
from nodegate.numbers.limits import Physics, of_platform, share_of
from nodegate.numbers.peers import NodePeers
from nodegate.probe.rdma import Rdma, RdmaPort
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Limit, LimitKind, NumberLimit
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.subjects.rdma import rails
from nodegate.text import some, with_unit
from nodegate.unknown import Unknown, known, unread
from nodegate.verdicts import Verdicts

SHARE = "nccl.group_share_of_rate_percent"
ALL_REDUCE = "nccl.all_reduce_gb_per_s"
_EXCHANGE = "derived.group_exchange_percent"
_MOST_NAMED = 4
_MOST_OF_RAILS = 4  # two nodes of 8 GPUs show 15/8 of what a rail carries, and switches that sum twice that
_NAMED = "keep the node out of jobs; measure it alone (nccl, rdma_bandwidth), look at its kernel log and at its NICs"
_PATH = "look at the cables, optics and switch ports between them, and at the switches' own counters"
_SEARCH = "see what the other nodes of the group say; run the command of the evidence file with fewer nodes"


def skip_alone(verdicts: Verdicts, groups: NcclGroups) -> None:
    """A node without another one has nothing to be judged; one that was lost keeps nothing that it gave before.

    Raises:
        NotDone: there is no other node.
        CannotMeasure: the node was lost.
    """
    if groups.alone:
        verdicts.not_done(groups.alone)
    last = lost(groups)
    if last is not None:
        verdicts.cannot(f"it was lost: {last.plan.group}: {last.why}", next_step=last.next_step)


def judge_endings(
    verdicts: Verdicts,
    groups: NcclGroups,
    is_bad: Callable[[GroupRun], bool],
    say: Callable[[GroupRun], str],
    good: str,
) -> None:
    """A finding for each collective: what is bad, in any attempt, and whose fault it is; else that it was well."""
    for what in COLLECTIVES:
        mine = [run for run in groups.runs if run.what == what and (run.plan.kind != "part" or run.partners_well)]
        bad = [run for run in mine if is_bad(run) and (run.plan.kind != "part" or groups.is_blamed)]
        whole = [run for run in mine if run.ending == "whole" and not is_bad(run)]
        if bad:
            _judge_bad(verdicts, groups, what, bad, say)
        elif whole:
            shown = ", ".join(dict.fromkeys(run.plan.group for run in whole))
            verdicts.passed(part=part_of(what), text=f"{good}: {shown}", observed=0)
        else:
            not_measured(verdicts, groups, what, "result")


def _judge_bad(
    verdicts: Verdicts, groups: NcclGroups, what: str, bad: list[GroupRun], say: Callable[[GroupRun], str]
) -> None:
    order: tuple[Whose, ...] = ("here", "either", "path", "open", "with", "other")
    run = min(bad, key=lambda each: (order.index(whose(groups, each)), each.plan.kind == "part"))
    fault, said = whose(groups, run), f"{run.plan.group}: {say(run)}"
    stuck = f"; it cannot be killed: {run.ran.stuck[0]}" if run.ran.stuck else ""
    whom = part_of(what)
    if fault in ("here", "either"):
        why = "this node, the other one or the path between them is at fault: there was no third node to tell"
        if fault == "here" and groups.is_unsteady and not groups.is_blamed:
            met = [is_sick(run) for run in groups.runs if run.plan.count == 2]
            count = f"{sum(met)} of its {len(met)} launches with one other node"
            why = f"{count} were bad, whoever it was: this node is at fault"
        elif fault == "here":
            why = "also with nodes that succeed without it: this node is at fault"
        text, code = f"{said}; {why}{stuck}", run.ending if run.ending in ("hung", "faulty") else ""
        verdicts.found(
            Verdict.FAIL, part=whom, text=text, action=_NAMED, quantity="group", observed=run.ending, code=code
        )
    elif fault == "other":
        named = some(groups.excuses(run), _MOST_NAMED)
        verdicts.passed(part=whom, text=f"{said}; caused by {named}, this node succeeds without it", observed=0)
    elif fault == "with":
        named, well = some(sorted(groups.bad_with), _MOST_NAMED), groups.well_without(groups.bad_with, what)
        text = f"{said}; only with {named}: {well} launches without it ended well; it or the path is at fault{stuck}"
        verdicts.found(Verdict.WARN, part=whom, text=text, action=_SEARCH, code="hung with one")
    elif fault == "path":
        text = f"{said}; {run.notes.searched}{stuck}"
        verdicts.found(Verdict.ERROR, part=whom, text=text, action=_PATH, code="path")
    else:
        found = f"; {run.notes.searched}" if run.notes.searched else ""
        others = ", ".join(run.notes.blamed)
        named = f"; {others} fails, and this node was not seen to work without" if others else ""
        text = f"{said}{found}{named}{stuck}; not known which node is at fault"
        verdicts.found(Verdict.ERROR, part=whom, text=text, action=_SEARCH)


def part_of(what: str) -> Part:
    """The collective over nodes."""
    return part.collective(f"{what} over nodes")


def not_measured(verdicts: Verdicts, groups: NcclGroups, what: str, quantity: str) -> None:
    """What a collective did not give, and which check says why."""
    reason, step = why_not(groups, what)
    blocked_by = "nccl_groups.hang" if any(run.ending in {"hung", "faulty"} for run in groups.of(what)) else ""
    verdicts.unknown(part=part_of(what), quantity=quantity, reason=reason, action=step, blocked_by=blocked_by)


def why_not(groups: NcclGroups, what: str) -> tuple[str, str]:
    """Why a collective gave nothing, and what to do."""
    for run in (*groups.of(what), *groups.runs):
        if run.why:
            where = run.plan.group if run.what == what else f"{run.plan.group}, {run.what}"
            return run.why if run.ending == "refused" else f"{where}: {run.why}", run.next_step
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
    physics: Bounds,
) -> None:
    """The bus bandwidth of some collectives over some kinds of groups; each that gave none is an error of its own."""
    chosen = []
    for what in whats:
        found = groups.named(NAMES[what])
        metrics = [each for each in found if each.conditions.get("group") in kinds and not groups.is_for_others(each)]
        chosen += metrics
        launched = [run for run in groups.of(what) if run.plan.kind in kinds]
        launched = launched or [run for run in groups.of("all_reduce") if run.plan.kind in kinds]  # the first to run
        excused = {run.plan.group: named for run in launched if (named := groups.excuses(run))}
        for group, named in excused.items():
            text = f"{group}: disturbed by {some(named, _MOST_NAMED)}, this node succeeds without it"
            verdicts.passed(part=part_of(what), text=text, observed="another node")
        if not metrics and not excused:
            not_measured(verdicts, groups, what, "bus bandwidth")
    own = [each for each in chosen if not _disturbed(verdicts, groups, each, baseline, peers, physics)]
    if own:
        metric_findings.judge(verdicts, own, baseline=baseline, peers=peers, remedy=remedy, physics=physics)


def _disturbed(  # noqa: PLR0917 - one caller, above
    verdicts: Verdicts, groups: NcclGroups, metric: Metric, baseline: Baseline, peers: NodePeers, physics: Bounds
) -> bool:
    """Whether a launch over many nodes is slow without evidence that this node is the reason: then told."""
    least = physics(metric, baseline).least
    runs = [run for run in groups.runs if run.plan.group == metric.launch]
    named = any(groups.node in run.notes.blamed for run in runs)
    if least is None or not metric.launch or metric.judged >= least.value or named:
        return False
    path = next((run.notes.searched for run in runs if run.notes.concerned), "")
    why, action = (path, _PATH) if path else _says_nothing(groups, metric, peers, least.value)
    if why:
        value = f"{metric_findings.quantity_of(metric)} {with_unit(metric.judged, metric.unit)}"
        text = f"{value} says nothing about this node: {why}"
        whom, code = metric_findings.part_of(metric), "path" if path else ""
        if action:
            verdicts.found(Verdict.NOT_JUDGED, part=whom, text=text, action=action, code=code)
        else:
            verdicts.left_out(part=whom, text=text)
    return bool(why)


def _says_nothing(groups: NcclGroups, metric: Metric, peers: NodePeers, least: float) -> tuple[str, str]:
    """Why a slow launch says nothing about this node, and what to do; empty where it does or nothing can be done.

    Another node of it is slow with one node too, while this one is not; or some of its nodes are not judged here.
    """
    together = peers.peers.together(metric, peers.node)
    pair = next((each for each in groups.named(metric.name) if each.conditions.get("group") == "pair"), None)
    alike = peers.of_devices(pair).get(pair.device, {}) if pair else {}
    slow = {name for name in together if alike.get(name, least) < least}
    if peers.node in slow:
        return "", ""
    if slow:
        why = f"{some(sorted(slow), _MOST_NAMED)} is slow with one other node too"
        return why, "measure it again without that node"
    count = _nodes(metric)
    unseen = f"{count - len(together)} of the {count} nodes of the launch are not judged in this run"
    return (f"{unseen}: judge them together", "") if count > len(together) else ("", "")


def sole_partner(groups: NcclGroups) -> str:
    """The only other node of this one's pairs, if it is unknown whether that one is good; else empty."""
    runs = [run for run in groups.of("all_reduce") if run.plan.kind == "pair"]
    partners = {name for run in runs for name in run.plan.nodes if name != groups.node}
    known = any(run.partners_well for run in runs)
    return "" if known or len(partners) != 1 else partners.pop()


def least_by_rate(rdma: Rdma, baseline: Baseline) -> NumberLimit | Unknown:
    """What all_reduce must reach by the rates of the node's own rails, in GB/s.

    What NVLink or PCIe inside the node carries bounds it too.

    Raises:
        NotJudged: no share of the rate is stored.
    """
    share, total = baseline.number(SHARE), _rails_gb_per_s(rdma, baseline)
    if isinstance(total, Unknown):
        return total
    within = inside_the_node(baseline)
    if within is not None and within.value < total:
        source = f"{share.value:g} % of the {within.value:g} GB/s that it needs inside a node; {share.source}"
        kind = LimitKind.FLOOR if within.kind is LimitKind.FLOOR else LimitKind.DERIVED  # of a floor there is only that
        return Limit(round(within.value * share.value / 100.0, 2), "GB/s", source, kind=kind)
    source = f"{share.value:g} % of the {total * 8:g} Gb/s of {len(_rails(rdma, baseline))} rails; {share.source}"
    return Limit(round(total * share.value / 100.0, 2), "GB/s", source, kind=LimitKind.DERIVED)


def inside_the_node(baseline: Baseline) -> NumberLimit | None:
    """The lowest accepted rate of an all_reduce inside one node; None if unknown."""
    entry = baseline.entry(ALL_REDUCE)
    if entry is not None and entry.value is not None:
        return baseline.find_number(ALL_REDUCE)
    return of_platform(Metric(ALL_REDUCE, (0.0,), "GB/s"), baseline).least


def bounds_of(rdma: Rdma, *, in_check: bool = False) -> Bounds:
    """What the rates of the rails say of collectives over nodes, and its platform of each node by itself.

    In a check a pair that is slower than they say is judged by nccl_groups.share_of_rate alone.
    """

    def bounds(metric: Metric, baseline: Baseline) -> Physics:
        total = _rails_gb_per_s(rdma, baseline)
        if isinstance(total, Unknown) or not total:
            return Physics()
        top, whose = _MOST_OF_RAILS * total, f"{_MOST_OF_RAILS} times the rate of all rails"
        if "racks" in metric.conditions:  # what is between racks bounds good ones too
            return Physics(top, whose)
        if metric.name == NAMES["all_reduce"]:
            limit = least_by_rate(rdma, baseline)
            least = None if isinstance(limit, Unknown) else replace(limit, direction=AT_LEAST)
            is_judged_there = in_check and metric.conditions.get("group") == "pair"
            is_slow = is_judged_there and least is not None and metric.judged < least.value
            return Physics(top, whose, None if is_slow else least)
        return Physics(top, whose, _least_of_exchange(metric, total, baseline))

    return bounds


def _least_of_exchange(metric: Metric, total: float, baseline: Baseline) -> NumberLimit | None:
    """What alltoall and sendrecv must reach by the rails, in GB/s of a GPU; None where no share is stored.

    Of an alltoall what goes to GPUs of the own node does not take the rails (NVIDIA/nccl-tests issue 130).
    """
    nodes, gpus = _nodes(metric), int(metric.conditions.get("gpus", "0") or 0)
    if nodes < 2 or gpus < nodes:
        return None
    per_gpu = total * nodes / gpus
    if metric.name == NAMES["alltoall"]:
        per_gpu *= (gpus - 1) / (gpus - gpus / nodes)
    within = inside_the_node(baseline)
    top = per_gpu if within is None else min(per_gpu, within.value)
    least = share_of(baseline, _EXCHANGE, top, "GB/s", "what the rails give each GPU,")
    is_floor = least and within and top < per_gpu and within.kind is LimitKind.FLOOR
    return replace(least, kind=LimitKind.FLOOR) if least and is_floor else least


def _nodes(metric: Metric) -> int:
    return int(metric.conditions.get("nodes", "0") or 0)


def _rails(rdma: Rdma, baseline: Baseline) -> tuple[RdmaPort, ...]:
    return rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))


def _rails_gb_per_s(rdma: Rdma, baseline: Baseline) -> float | Unknown:
    rates = [port.rate_gbps for port in _rails(rdma, baseline)]
    unknown = unread(*rates)
    return sum(known(rates)) / 8.0 if unknown is None else unknown
