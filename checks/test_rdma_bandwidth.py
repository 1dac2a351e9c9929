"""RDMA bandwidth: each rail writes and reads to other nodes at its rate, all rails of all nodes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import NotJudged, Verdict, part, with_unit
from nodegate.measure.rdma import findings, saying
from nodegate.measure.rdma.beside import excused, nearest, shared_rail
from nodegate.measure.rdma.findings import Fault
from nodegate.measure.rdma.result import BOTH_AT_ONCE, INSIDE
from nodegate.metric_names import words
from nodegate.numbers import metric_findings
from nodegate.numbers.assessments import assessments
from nodegate.subjects.rdma import is_active, rails

if TYPE_CHECKING:
    from nodegate.api import Baseline, NodePeers, Rdma, RdmaBandwidth, Verdicts

pytestmark = pytest.mark.tier("nightly")


def test_complete(rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """Each rail in service has a measured bandwidth. (F07)

    A rail that nobody measured may be as slow as it likes. Rails that are down are judged by rdma.port_state. A node
    without a partner is measured NIC to NIC inside.
    """
    wanted = findings.BETWEEN if rdma_bandwidth.partners else ("rdma.inside_gbps",)
    have = {(metric.name, metric.device) for metric in rdma_bandwidth.metrics}
    if (lost := findings.lost(rdma_bandwidth)) is not None:
        text = f"lost while it was measured: {lost.said}; its earlier results are incomplete"
        verdicts.found(Verdict.ERROR, part=part.NODE, text=text, action=lost.next_step, code="lost")
    ports = rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))
    active = [findings.device_of(port) for port in ports if is_active(port)]
    for device, why in sorted(rdma_bandwidth.left_out.items()):
        verdicts.lacking(part=part.named(device), text=why, witness="the inventory: nodegate_nics")
    for device in sorted({*active, *rdma_bandwidth.planned} - rdma_bandwidth.left_out.keys()):
        missing = [name for name in wanted if (name, device) not in have]
        if not missing:
            seen = findings.how_measured(rdma_bandwidth, device)
            verdicts.passed(part=part.named(device), text=seen, quantity="bandwidth measured", observed=True)
            saying.say_dead_server(rdma_bandwidth, device, verdicts)
        elif any(run.trouble and run.trouble.kind == "link" for run in rdma_bandwidth.runs if run.device == device):
            verdicts.left_out(part=part.named(device), text=f"no number, as {saying.ERRORS} reports")
        else:
            reason, step = saying.why_not(rdma_bandwidth, device)
            what = " and ".join(words(name) for name in missing)
            verdicts.unknown(part=part.named(device), quantity=what, reason=reason, action=step)


def test_write(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail writes as fast to other nodes as its platform and its peers do. (F05, F07, F14)

    One slow rail slows every collective of every job on this node. All pairs of nodes and all rails are loaded at
    once, as a job does; the best of several partners counts, so that a bad partner is not held against this node.
    """
    metrics = saying.between(rdma_bandwidth, verdicts, "rdma.write_gbps")
    saying.say_numbers(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers)


def test_read(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail reads as fast from other nodes as its platform and its peers do. (F05, F07, F14)

    Data flows the other way than when writing: a NIC or a path may be slow in one direction only.
    """
    metrics = saying.between(rdma_bandwidth, verdicts, "rdma.read_gbps")
    saying.say_numbers(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers)


def test_latency(rdma_bandwidth: RdmaBandwidth, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Each rail answers other nodes as quickly as its platform and its peers do. (F07, F14)

    Measured on an idle fabric: a detour through another switch, or a NIC that corrects errors all the time, shows here
    before it shows in bandwidth. The nearest of several partners counts. A node all of whose rails are late alike, by
    no more than one tier of switches, may only hang on another leaf than the rest: that is a warning.
    """
    metrics = saying.between(rdma_bandwidth, verdicts, "rdma.write_latency_us", "rdma.read_latency_us")
    near = [nearest(metric, baseline) for metric in metrics]
    for metric, found in assessments(near, baseline=baseline, peers=peers):
        said = excused(rdma_bandwidth, metric, found, baseline, peers)
        verdicts.add(metric_findings.finding_of(metric, said, remedy=saying.FAR))
        metric_findings.add_proof(verdicts, metric, said)


def test_share_of_rate(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail carries most of what its own link's rate allows, in both directions. (F05, F07)

    The device's own word: it holds on a platform without a baseline, and where the whole fleet is slow alike. A NIC in
    a PCIe slot that is too narrow for it, or with congestion control set wrongly, stays far below. Where a rail is slow
    on every node of the run with every partner, no node can be blamed alone, and all of them fail. Each program runs on
    a core near its NIC, for the way between two sockets is slower; where sysfs does not say which ones these are, a low
    number proves nothing.
    """
    metrics = saying.between(rdma_bandwidth, verdicts, *findings.BETWEEN)
    baseline.limit(findings.SHARE)
    saying.say_shares(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers, action=saying.SLOW)


def test_rails(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """No rail of the fleet is slower than the others on many nodes. (F07, F14)

    Nodes are compared on the same rail, so a rail that is slow on all of them passes everywhere else; and where the
    NICs behind one leaf are slow, each looks like a NIC. Four slow NICs and more of one rail, while no other rail has a
    quarter of them, are no chance. What fails by itself fails here too, as the one thing that its nodes share.
    """
    metrics = saying.between(rdma_bandwidth, verdicts, *findings.BETWEEN)
    for metric in metrics:
        shared, what, rail = shared_rail(metric, baseline, peers), words(metric.name), part.named(metric.device)
        if shared is None:
            verdicts.passed(part=rail, text=f"{what} not behind the other rails", quantity=what)
            continue
        limit, note = shared
        bad = findings.is_bad(metric, rdma, baseline, peers)
        verdicts.found(
            Verdict.FAIL if bad else Verdict.WARN,
            part=rail,
            quantity=what,
            observed=float(f"{metric.best:.5g}"),
            unit=metric.unit,
            limit=limit,
            note=note,
            action=saying.LEAF,
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
    for device in sorted({metric.device for metric in saying.between(rdma_bandwidth, verdicts, *findings.BETWEEN)}):
        ways = {
            way: findings.blamed_one_way(rdma_bandwidth, device, rdma, baseline, sends=way == "sends")
            for way in ("sends", "receives")
        }
        if Fault.UNTRIED in {blame.fault for blame in ways.values()}:
            limits = [findings.least(rdma, name, device, baseline) for name in findings.BETWEEN]
            saying.say_untried(verdicts, device, has_limit=any(limits))
        elif any(blame.bad_with and not blame.good_with for blame in ways.values()) or len(beside.get(device, ())) != 1:
            saying.say_ways(verdicts, device, ways, findings.unbound(rdma_bandwidth, device))
        else:
            saying.say_way_beside(verdicts, *beside[device][0])


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
        if saying.say_unsteady(rdma_bandwidth, device, verdicts, hung=True):
            continue
        worst = [findings.blamed(rdma_bandwidth, name, device, None) for name in sorted({run.name for run in bad})]
        for blame in sorted(worst, key=lambda each: saying.ORDER.index(each.fault))[:1]:
            saying.say_errors(verdicts, device, bad, blame)
    if not runs:
        reason, step = saying.why_not(rdma_bandwidth, "")
        verdicts.cannot(reason, next_step=step)


def test_path(rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """No rail is slow with one partner while both of them are fast with others. (F07, F14)

    Then it is neither NIC but the path: an uplink that lost a lane, a hash that puts two flows on one link. The nodes
    may work, and their jobs are slow when they meet. A partner that is slow with everybody is judged on its own node,
    and a pair that was slow once has been measured twice more.
    """
    if not rdma_bandwidth.partners:
        verdicts.not_done(saying.ALONE)
    judged = False
    for metric in rdma_bandwidth.named(*findings.BETWEEN):
        limit = findings.least(rdma, metric.name, metric.device, baseline)
        if limit is None:
            continue
        judged = True
        blame = findings.blamed(rdma_bandwidth, metric.name, metric.device, limit)
        what, rail = words(metric.name), part.named(metric.device)
        on_path = findings.on_the_path(rdma_bandwidth, metric.device, rdma, baseline).intersection(blame.bad_with)
        if saying.say_unsteady(rdma_bandwidth, metric.device, verdicts, hung=False, quantity=what):
            continue
        if blame.fault is Fault.PATH and on_path:
            pairs = findings.best_with(rdma_bandwidth, metric, on_path)
            text = f"{what} {pairs or 'failed'}, {metric.best:g} Gb/s with others; both ends are good with others"
            verdicts.found(Verdict.WARN, part=rail, text=text, action=saying.PATH, quantity=what, metric=metric.name)
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
def test_both_at_once(
    rdma_bandwidth: RdmaBandwidth, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Each rail carries nearly its rate in both directions at the same time, as NCCL's rings do. (F05, F07)

    A rail may be at full rate in each direction alone and not in both: PCIe without relaxed ordering or with too few
    credits, firmware, flow control. With messages of 64 KiB, which stay in the caches of the CPUs: what all rails carry
    both ways may be more than the memory of a node does. Source: imbue-ai/cluster-health, 720 Gb/s on links of 400.
    """
    if rdma_bandwidth.partners and not rdma_bandwidth.of(BOTH_AT_ONCE):
        verdicts.not_done("both directions at once were not requested")
    metrics = saying.between(rdma_bandwidth, verdicts, BOTH_AT_ONCE)
    baseline.limit(findings.SHARE_OF_BOTH)
    saying.say_missing(verdicts, rdma_bandwidth.of(BOTH_AT_ONCE), metrics)
    saying.say_shares(rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers, action=saying.AT_ONCE)


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
        verdicts.not_done("NIC to NIC inside the node was not requested")
    if not metrics and between >= {run.device for run in failed} and findings.only_link_troubles(failed):
        verdicts.not_done("the rails of this network do not reach each other; each is measured with other nodes")
    if not metrics and not between and findings.only_link_troubles(failed):
        text = "no rail of this node reaches another one, which is by design on some networks"
        verdicts.found(Verdict.ERROR, part=part.NODE, text=text, action=saying.OTHER, lacks=saying.OTHER_NODE)
        return
    measured_inside = {metric.device for metric in metrics}
    for run in {run.device: run for run in failed}.values():
        if run.trouble is None or run.device in measured_inside:
            continue
        verdict = Verdict.WARN if run.device in between else Verdict.ERROR
        if verdict is Verdict.ERROR and run.trouble.kind == "link":
            verdict = Verdict.FAIL
        text = f"{findings.test_of(run)} with {run.link.peer_device}: {run.trouble.said}"
        verdicts.found(verdict, part=part.named(run.device), text=text, action=run.trouble.next_step)
    own, rates = [], findings.bounds_of(rdma, in_check=True)
    for metric in metrics:
        partners = findings.slow_partners_inside(rdma_bandwidth, metric, rdma, baseline)
        if partners:
            value = f"{words(metric.name)} {with_unit(metric.best, metric.unit)}"
            text = f"{value} with {partners} alone, which is slow between nodes too"
            verdicts.passed(part=part.named(metric.device), text=text)
        else:
            own.append(metric)
    if own:
        metric_findings.judge(verdicts, own, baseline=baseline, peers=peers, remedy=saying.SLOW, physics=rates)


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
    metrics = rdma_bandwidth.named(findings.GPU_WRITE)
    saying.say_missing(verdicts, runs, metrics)
    if metrics:
        rates = findings.bounds_of(rdma, in_check=True)
        metric_findings.judge(
            verdicts, metrics, baseline=baseline, peers=peers, remedy=saying.GPU_MEMORY, physics=rates
        )
        saying.say_shares(
            rdma_bandwidth, metrics, rdma, verdicts, baseline=baseline, peers=peers, action=saying.GPU_MEMORY
        )
