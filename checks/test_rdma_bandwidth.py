"""RDMA bandwidth: each rail writes and reads to other nodes at its rate, all rails of all nodes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate import part
from nodegate.errors import NotJudged
from nodegate.measure.rdma import distance, findings
from nodegate.measure.rdma.fault_location import Fault
from nodegate.measure.rdma.result import INSIDE, WAYS
from nodegate.measure.rdma.shared_rail import shared_rail
from nodegate.metric_names import words
from nodegate.numbers import metric_findings
from nodegate.numbers.assessments import assessments
from nodegate.subjects.rdma import is_active, rails
from nodegate.text import with_unit
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.measure.rdma.fault_location import FaultLocation
    from nodegate.measure.rdma.result import LinkRun, RdmaBandwidth
    from nodegate.metric import Metric
    from nodegate.numbers.assess import Assessment
    from nodegate.numbers.peers import NodePeers
    from nodegate.probe.rdma import Rdma

pytestmark = pytest.mark.tier("nightly")

SLOW = (
    "check the NIC's PCIe width and speed, its cable and port counters, PFC and ECN on its switch port; then swap "
    "cables with a good rail"
)
GPU_MEMORY = (
    "load nvidia_peermem, or a kernel and driver with dma-buf; switch ACS off on the bridges between GPU and NIC, and "
    "the IOMMU to pass-through"
)
FAR = "check the switch of this rail, other traffic on it, and CPU idle states"
ENDS = "check this NIC's cable, port counters and kernel log, and PFC and MTU of its switch port"
PATH = "check the links between the two switches and the routing of this rail"
OTHER = "measure it with another node"
THIRD = "measure it with a third node, which tells the two ends apart"
EVERYWHERE = (
    "not one cable: check what all nodes of this rail share, the rate and the settings of the switch ports, and PCIe "
    "in the BIOS and on the NICs (ATS, ACS, relaxed ordering)"
)
LEAF = "not one NIC: check the leaf switch of this rail, its uplinks and port settings, and how the rail is cabled"
ONE_WAY = "clean or swap the cable and its transceivers, see symbol errors of both ends; then swap the NIC"
ALONE = "no other node to measure with; rdma_bandwidth.inside measures NIC to NIC in this node"
_ERRORS = "rdma_bandwidth.errors"


def test_complete(rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """Each rail in service has a measured bandwidth. (F07)

    A rail that nobody measured may be as slow as it likes. Rails that are down are judged by rdma.port_state. A node
    without a partner is measured NIC to NIC inside.
    """
    wanted = findings.BETWEEN if rdma_bandwidth.partners else ("rdma.inside_gbps",)
    have = {(metric.name, metric.device) for metric in rdma_bandwidth.metrics}
    if (lost := findings.lost(rdma_bandwidth)) is not None:
        text = f"lost while it was measured: {lost.said}; what it gave before is not the whole"
        verdicts.found(Verdict.ERROR, part=part.NODE, text=text, action=lost.next_step, code="lost")
    ports = rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))
    active = [findings.device_of(port) for port in ports if is_active(port)]
    for device in sorted({*active, *rdma_bandwidth.planned}):
        missing = [name for name in wanted if (name, device) not in have]
        if not missing:
            seen = findings.how_measured(rdma_bandwidth, device)
            verdicts.passed(part=part.named(device), text=seen, quantity="bandwidth measured", observed=True)
            _say_dead_server(rdma_bandwidth, device, verdicts)
        elif any(run.trouble and run.trouble.kind == "link" for run in rdma_bandwidth.runs if run.device == device):
            verdicts.found(Verdict.SKIP, part=part.named(device), text=f"no number, as {_ERRORS} reports")
        else:
            reason, step = _why_not(rdma_bandwidth, device)
            what = " and ".join(words(name) for name in missing)
            verdicts.unknown(part=part.named(device), quantity=what, reason=reason, action=step)


def _say_dead_server(found: RdmaBandwidth, device: str, verdicts: Verdicts) -> None:
    """A rail may be well as a client, and its server may never start: too little memory to register, a taken port."""
    dead = [run for run in found.runs if run.device == device and run.role == "server" and run.server_died]
    if dead and dead[0].trouble is not None:
        verdicts.found(
            Verdict.WARN,
            part=part.named(device),
            text=f"the server of {findings.test_of(dead[0])} ended by itself: {dead[0].trouble.said}",
            action=dead[0].trouble.next_step,
            quantity="server",
            code="server ended",
        )


def _why_not(found: RdmaBandwidth, device: str) -> tuple[str, str]:
    """Why a device has no number, and what to do."""
    if device in found.missing:
        return found.missing[device].reason.removeprefix(f"{device}: "), found.missing[device].next_step
    for run in found.runs:
        if device in ("", run.device) and run.trouble is not None:
            return f"with {run.partner}: {run.trouble.said}", run.trouble.next_step
    if found.failed:
        return found.failed[-1].reason, found.failed[-1].next_step
    if device and device not in found.planned:
        return "not chosen to be measured", "name the rails of this node in the inventory (nodegate_nics: a list)"
    return "no other node could be measured with it", "see what the other nodes say, then run again"


def _between(found: RdmaBandwidth, verdicts: Verdicts, *names: str) -> tuple[Metric, ...]:
    """The numbers of these names that were measured between nodes; ends the check where there are none."""
    if not found.partners:
        verdicts.not_done(ALONE)
    metrics = found.named(*names)
    if not metrics:
        reason, step = _why_not(found, "")
        hung = any(run.trouble is not None and run.trouble.kind == "link" for run in found.runs)
        verdicts.cannot(reason, next_step=step, blocked_by=_ERRORS if hung else "")
    return metrics


def test_write(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail writes as fast to other nodes as its platform and its peers do. (F05, F07, F14)

    One slow rail slows every collective of every job on this node. All pairs of nodes and all rails are loaded at
    once, as a job does; the best of several partners counts, so that a bad partner is not held against this node.
    """
    metrics = _between(rdma_bandwidth, verdicts, "rdma.write_gbps")
    _say_numbers(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers)


def test_read(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail reads as fast from other nodes as its platform and its peers do. (F05, F07, F14)

    Data flows the other way than when writing: a NIC or a path may be slow in one direction only.
    """
    metrics = _between(rdma_bandwidth, verdicts, "rdma.read_gbps")
    _say_numbers(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers)


def _say_numbers(
    found: RdmaBandwidth,
    metrics: tuple[Metric, ...],
    rdma: Rdma,
    verdicts: Verdicts,
    *,
    baseline: Baseline,
    peers: NodePeers,
) -> None:
    """Each number by all comparisons; a low one of which the other end may be the cause proves nothing."""
    rates = findings.physics(rdma)
    for metric, said in assessments(metrics, baseline=baseline, peers=peers, physics=rates):
        unproven = findings.unproven(found, metric, said.limit) if said.verdict is Verdict.FAIL else ""
        if unproven and not findings.slow_everywhere(found, metric, said.limit, peers):
            told = f"{words(metric.name)} {with_unit(metric.best, metric.unit)}, {unproven}"
            verdicts.found(Verdict.ERROR, part=part.named(metric.device), text=told, action=THIRD)
        else:
            verdicts.add(metric_findings.finding_of(metric, said, remedy=SLOW))
            metric_findings.add_proof(verdicts, metric, said)


def test_latency(rdma_bandwidth: RdmaBandwidth, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Each rail answers other nodes as quickly as its platform and its peers do. (F07, F14)

    Measured on an idle fabric: a detour through another switch, or a NIC that corrects errors all the time, shows here
    before it shows in bandwidth. The nearest of several partners counts. A node all of whose rails are late alike, by
    no more than one tier of switches, may only hang on another leaf than the rest: that is a warning.
    """
    metrics = _between(rdma_bandwidth, verdicts, "rdma.write_latency_us", "rdma.read_latency_us")
    near = [distance.nearest(metric, baseline) for metric in metrics]
    for metric, found in assessments(near, baseline=baseline, peers=peers):
        said = distance.excused(rdma_bandwidth, metric, found, baseline, peers)
        verdicts.add(metric_findings.finding_of(metric, said, remedy=FAR))
        metric_findings.add_proof(verdicts, metric, said)


def test_share_of_rate(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail carries most of what its own link's rate allows, in both directions. (F05, F07)

    The device's own word: it holds on a platform without a baseline, and where the whole fleet is slow alike. A NIC in
    a PCIe slot that is too narrow for it, or with congestion control set wrongly, stays far below. Where a rail is slow
    on every node of the run with every partner, no node can be blamed alone, and all of them fail.
    """
    metrics = _between(rdma_bandwidth, verdicts, *findings.BETWEEN)
    baseline.limit(findings.SHARE)
    _say_shares(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers, action=SLOW)


def _say_shares(
    found: RdmaBandwidth,
    metrics: tuple[Metric, ...],
    rdma: Rdma,
    verdicts: Verdicts,
    *,
    baseline: Baseline,
    peers: NodePeers,
    action: str,
) -> None:
    """Each number against its share of the rate; a low one of which either end may be the cause proves nothing.

    Unless it is low on every node of the run: then it is none of the ends but what they share.
    """
    for metric in metrics:
        rail, what = part.named(metric.device), words(metric.name)
        observed, limit = float(f"{metric.best:.5g}"), findings.share_of_rate(rdma, metric.device, baseline)
        if findings.slow_everywhere(found, metric, limit, peers):
            verdicts.at_least(
                part=rail,
                quantity=what,
                observed=observed,
                limit=limit,
                note="no node of the run reaches it on this rail",
                action=EVERYWHERE,
                code="everywhere",
            )
        elif unproven := findings.unproven(found, metric, limit):
            told = f"{what} {with_unit(metric.best, metric.unit)}, {unproven}"
            verdicts.found(Verdict.ERROR, part=rail, text=told, action=THIRD)
        else:
            verdicts.at_least(part=rail, quantity=what, observed=observed, limit=limit, action=action)


def test_rails(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """No rail of the fleet is slower than the others on many nodes. (F07, F14)

    Nodes are compared on the same rail, so a rail that is slow on all of them passes everywhere else; and where the
    NICs behind one leaf are slow, each looks like a NIC. Four slow NICs and more of one rail, while no other rail has a
    quarter of them, are no chance. What fails by itself fails here too, as the one thing that its nodes share.
    """
    metrics = _between(rdma_bandwidth, verdicts, *findings.BETWEEN)
    for metric in metrics:
        shared, what, rail = shared_rail(metric, baseline, peers), words(metric.name), part.named(metric.device)
        if shared is None:
            verdicts.passed(part=rail, text=f"{what} not behind the other rails", quantity=what)
            continue
        bad = findings.is_bad(metric, rdma, baseline, peers)
        verdicts.found(
            Verdict.FAIL if bad else Verdict.WARN,
            part=rail,
            quantity=what,
            observed=float(f"{metric.best:.5g}"),
            unit=metric.unit,
            limit=shared.limit,
            note=shared.note,
            action=LEAF,
            metric=metric.name,
        )


def test_both_ways(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail sends as well as it receives. (F05, F07, F14)

    Over several rounds a rail is the client in some and the server in others, and the best of them counts: one that is
    slow in one direction alone, a NIC that sends badly or a fibre of two, would always have a good number. Here every
    run counts for the direction in which its data went: by the limits, and each direction beside the other nodes.
    """
    beside = findings.slow_ways(rdma_bandwidth, baseline, peers)
    for device in sorted({metric.device for metric in _between(rdma_bandwidth, verdicts, *findings.BETWEEN)}):
        ways = {
            way: findings.blamed_one_way(rdma_bandwidth, device, rdma, baseline, sends=way == "sends")
            for way in ("sends", "receives")
        }
        if Fault.UNTRIED in {blame.fault for blame in ways.values()}:
            limits = [findings.least(rdma, name, device, baseline) for name in findings.BETWEEN]
            _say_untried(verdicts, device, has_limit=any(limits))
        elif any(blame.bad_with and not blame.good_with for blame in ways.values()) or len(beside.get(device, ())) != 1:
            _say_ways(verdicts, device, ways)
        else:
            _say_way_beside(verdicts, *beside[device])


def _say_way_beside(verdicts: Verdicts, slow: tuple[Metric, Assessment]) -> None:
    """One direction that is behind the other nodes, while the other one is not."""
    metric, found = slow
    other = "what it receives is not" if metric.name == WAYS[True] else "what it sends is not"
    verdicts.add(metric_findings.finding_of(metric, found, remedy=ONE_WAY, note=other))


def _say_untried(verdicts: Verdicts, device: str, *, has_limit: bool) -> None:
    if has_limit:
        verdicts.found(Verdict.SKIP, part=part.named(device), text="measured in one direction only")
    else:
        text, action = "RDMA bandwidth has no limit to be judged by", metric_findings.ADD_A_LIMIT
        verdicts.found(Verdict.NOT_JUDGED, part=part.named(device), text=text, action=action)


def _say_ways(verdicts: Verdicts, device: str, ways: dict[str, FaultLocation]) -> None:
    slow = [way for way, blame in ways.items() if blame.bad_with and not blame.good_with]
    if len(slow) != 1:
        verdicts.passed(
            part=part.named(device), text="sends as well as it receives", quantity="slow directions", observed=len(slow)
        )
    elif (blame := ways[slow[0]]).fault is Fault.HERE:
        other = "receives" if slow[0] == "sends" else "sends"
        verdicts.found(
            Verdict.FAIL,
            part=part.named(device),
            text=f"{slow[0]} slowly with {', '.join(blame.bad_with)}, and {other} at full rate",
            action=ONE_WAY,
            quantity="slow directions",
            observed=1,
        )
    else:
        text = f"{slow[0]} slowly with {', '.join(blame.bad_with)}: either end may be at fault"
        verdicts.found(Verdict.ERROR, part=part.named(device), text=text, action=THIRD)


def test_errors(rdma_bandwidth: RdmaBandwidth, verdicts: Verdicts) -> None:
    """No transfer of any rail hangs or ends with a completion error. (F06, F07, F14)

    A flapping link, lost frames (PFC), an MTU or a GID that does not fit: a job dies of it with an NCCL time-out. What
    happened with one partner, while all others were well, is not held against this node. On some networks the NICs of
    one node do not reach each other: transfers inside the node count only where there was no other node.
    """
    between = [run for run in rdma_bandwidth.runs if run.name != INSIDE] or rdma_bandwidth.runs
    runs = [run for run in between if run.trouble is None or run.trouble.kind == "link"]
    for device in sorted({run.device for run in runs}):
        mine = [run for run in runs if run.device == device]
        bad = [run for run in mine if run.trouble is not None]
        if not bad:
            verdicts.passed(part=part.named(device), text="transfers without an error", quantity="errors", observed=0)
            continue
        worst = [findings.blamed(rdma_bandwidth, name, device, None) for name in sorted({run.name for run in bad})]
        for blame in sorted(worst, key=lambda each: _ORDER.index(each.fault))[:1]:
            _say_errors(verdicts, device, bad, blame)
    if not runs:
        reason, step = _why_not(rdma_bandwidth, "")
        verdicts.cannot(reason, next_step=step)


_ORDER = (
    Fault.HERE,
    Fault.EITHER,
    Fault.UNPROVEN,
    Fault.PATH,
    Fault.PATH_OR_PARTNER,
    Fault.PARTNER,
    Fault.NONE,
    Fault.UNTRIED,
)


def _say_errors(verdicts: Verdicts, device: str, bad: list[LinkRun], blame: FaultLocation) -> None:
    first = next((run for run in bad if run.partner in blame.bad_with), bad[0])
    said = first.trouble.said if first.trouble else ""
    what, rail = f"{findings.test_of(first)} with {first.partner}: {said}", part.named(device)
    if blame.fault in {Fault.EITHER, Fault.UNPROVEN} and first.name == INSIDE:
        text = f"{what}; on some networks the NICs of one node do not reach each other, and there was no other node"
        verdicts.found(Verdict.ERROR, part=rail, text=text, action=OTHER)
    elif blame.fault in {Fault.HERE, Fault.EITHER}:
        here = "it fails with every partner"
        whom = here if blame.fault is Fault.HERE else "its only partner, so either end may be at fault"
        verdicts.found(Verdict.FAIL, part=rail, text=f"{what}; {whom}", action=ENDS, quantity="errors")
    elif blame.fault is Fault.UNPROVEN:
        text = f"{what}; that partner fails with others too"
        verdicts.found(Verdict.ERROR, part=rail, text=text, action="measure this node again with good ones")
    elif blame.fault is Fault.PATH:
        text = f"{what}; both ends work with others"
        verdicts.found(Verdict.WARN, part=rail, text=text, action=PATH, quantity="errors", code="path")
    else:
        verdicts.passed(part=rail, text=f"works with {', '.join(blame.good_with)}; {what}", quantity="errors")


def test_path(rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """No rail is slow with one partner while both of them are fast with others. (F07, F14)

    Then it is neither NIC but the path: an uplink that lost a lane, a hash that puts two flows on one link. The nodes
    may work, and their jobs are slow when they meet. A partner that is slow with everybody is judged on its own node,
    and a pair that was slow once has been measured twice more.
    """
    if not rdma_bandwidth.partners:
        verdicts.not_done(ALONE)
    judged = False
    for metric in rdma_bandwidth.named(*findings.BETWEEN):
        limit = findings.least(rdma, metric.name, metric.device, baseline)
        if limit is None:
            continue
        judged = True
        blame = findings.blamed(rdma_bandwidth, metric.name, metric.device, limit)
        what, rail = words(metric.name), part.named(metric.device)
        on_path = findings.on_the_path(rdma_bandwidth, metric.device, rdma, baseline).intersection(blame.bad_with)
        if blame.fault is Fault.PATH and on_path:
            pairs = findings.best_with(rdma_bandwidth, metric, on_path)
            text = f"{what} {pairs or 'failed'}, {metric.best:g} Gb/s with others; both ends are good with others"
            verdicts.found(Verdict.WARN, part=rail, text=text, action=PATH, quantity=what, metric=metric.name)
        elif blame.fault in {Fault.PARTNER, Fault.PATH, Fault.PATH_OR_PARTNER}:
            text = f"{what} low only with {', '.join(blame.bad_with)}, {metric.best:g} Gb/s with others"
            verdicts.passed(part=rail, text=text, quantity=what, observed="one partner")
        else:
            verdicts.passed(part=rail, text=f"{what} alike with all partners", quantity=what, observed="alike")
    if not rdma_bandwidth.named(*findings.BETWEEN):
        verdicts.not_done("no number between nodes, as rdma_bandwidth.complete reports")
    if not judged:
        raise NotJudged(f"no limit rdma.write_gbps, rdma.read_gbps or {findings.SHARE}")


@pytest.mark.tier("delivery")
def test_inside(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """NIC to NIC inside the node, each rail is as fast as its platform and its peers. (F05, F07)

    Tells a NIC or its PCIe slot from the fabric between nodes, and needs no partner. On some RoCE networks the two NICs
    of one node do not reach each other: where rails are well between nodes, what fails inside only warns, and where no
    rail reaches another one it is the network.
    """
    metrics = rdma_bandwidth.named(INSIDE)
    between = {metric.device for metric in rdma_bandwidth.named(*findings.BETWEEN)}
    failed = [run for run in rdma_bandwidth.of(INSIDE) if run.trouble is not None]
    if not metrics and not failed:
        verdicts.not_done("NIC to NIC inside the node was not asked for")
    if not metrics and between >= {run.device for run in failed} and findings.only_link_troubles(failed):
        verdicts.not_done("the rails of this network do not reach each other; each is measured with other nodes")
    if not metrics and not between and findings.only_link_troubles(failed):
        text = "no rail of this node reaches another one; on some networks they do not"
        verdicts.found(Verdict.ERROR, part=part.NODE, text=text, action=OTHER)
        return
    measured_inside = {metric.device for metric in metrics}
    for run in {run.device: run for run in failed}.values():
        if run.trouble is None or run.device in measured_inside:
            continue
        verdict = Verdict.WARN if run.device in between else Verdict.ERROR
        if verdict is Verdict.ERROR and run.trouble.kind == "link":
            verdict = Verdict.FAIL
        text = f"{findings.test_of(run)} with {run.peer_device}: {run.trouble.said}"
        verdicts.found(verdict, part=part.named(run.device), text=text, action=run.trouble.next_step)
    own, rates = [], findings.physics(rdma)
    for metric in metrics:
        partners = findings.slow_partners_inside(rdma_bandwidth, metric, rdma, baseline)
        if partners:
            value = f"{words(metric.name)} {with_unit(metric.best, metric.unit)}"
            text = f"{value} with {partners} alone, which is slow between nodes too"
            verdicts.passed(part=part.named(metric.device), text=text)
        else:
            own.append(metric)
    if own:
        metric_findings.judge(verdicts, own, baseline=baseline, peers=peers, remedy=SLOW, physics=rates)


def test_gpu_memory(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """From GPU memory each rail writes as fast as its platform and its peers do. (F32)

    This is the way that NCCL takes. Without peer memory or dma-buf, or with ACS in the way, data takes the detour
    through host memory. Measured where perftest is built for CUDA on both ends. The share of the link's rate that is
    asked for holds where the whole fleet is slow alike. Source: Azure NHC, 90 to 95 % from GPU memory.
    """
    runs = rdma_bandwidth.of(findings.GPU_WRITE)
    if not runs:
        verdicts.not_done("perftest here cannot use GPU memory (no --use_cuda, or neither nvidia_peermem nor dma-buf)")
    have = {metric.device for metric in rdma_bandwidth.named(findings.GPU_WRITE)}
    for device in sorted({run.device for run in runs} - have):
        reason, step = _why_not_gpu(runs, device)
        quantity = words(findings.GPU_WRITE)
        verdicts.unknown(part=part.named(device), quantity=quantity, reason=reason, action=step)
    if have:
        metrics, rates = rdma_bandwidth.named(findings.GPU_WRITE), findings.physics(rdma)
        metric_findings.judge(verdicts, metrics, baseline=baseline, peers=peers, remedy=GPU_MEMORY, physics=rates)
        _say_shares(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers, action=GPU_MEMORY)


def _why_not_gpu(runs: tuple[LinkRun, ...], device: str) -> tuple[str, str]:
    for run in runs:
        if run.device == device and run.trouble is not None:
            return f"with {run.partner}: {run.trouble.said}", run.trouble.next_step
    return "no run", "measure this node again"
