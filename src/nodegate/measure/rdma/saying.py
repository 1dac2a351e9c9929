"""What the checks of RDMA bandwidth say: findings for numbers, directions and errors, and the next steps."""

from collections.abc import Sequence

from nodegate.baseline.baseline import Baseline
from nodegate.measure.rdma import findings
from nodegate.measure.rdma.beside import how_often
from nodegate.measure.rdma.findings import Fault, FaultLocation
from nodegate.measure.rdma.result import INSIDE, WAYS, LinkRun, RdmaBandwidth
from nodegate.metric import Metric
from nodegate.metric_names import words
from nodegate.numbers import metric_findings
from nodegate.numbers.assessments import Assessment, assessments
from nodegate.numbers.peers import NodePeers
from nodegate.probe.rdma import Rdma
from nodegate.records import part
from nodegate.records.program_run import Role
from nodegate.records.verdict import Verdict
from nodegate.text import with_unit
from nodegate.verdicts import Verdicts

SLOW = (
    "check the NIC's PCIe width and speed, its cable and port counters, PFC and ECN on its switch port; then swap "
    "cables with a good rail"
)
AT_ONCE = (
    "compare the BIOS and the NIC's settings with a node that is fast: relaxed ordering and ATS of PCIe, MaxReadReq, "
    "firmware; then PFC and ECN on its switch port"
)
GPU_MEMORY = (
    "load nvidia_peermem, or a kernel and driver with dma-buf; switch ACS off on the bridges between GPU and NIC, and "
    "the IOMMU to pass-through"
)
BOND = (
    "see which of its two ports are up (/proc/net/bonding), their cables and switch ports, and how queue pairs are "
    "spread over them (LAG mode of the NIC); the NIC itself may be good"
)
PLACE = (
    "let the node say where its NICs are (numa_node in sysfs: the BIOS, or the topology that its virtual machine is "
    "given), then measure again"
)
FAR = "check the switch of this rail, other traffic on it, and CPU idle states"
ENDS = "check this NIC's cable, port counters and kernel log, and PFC and MTU of its switch port"
PATH = "check the links between the two switches and the routing of this rail"
OTHER = "measure it with another node"
WITH_GOOD_ONES = "measure this node again with good ones"
# The codes of what such a step brings: errors that lack the same are one cause.
THIRD_NODE, OTHER_NODE, NEAR_PLACE, BOTH_PORTS = "third node", "another node", "place near the NIC", "both ports"
THIRD = "measure it with a third node to find out which end it is"
EVERYWHERE = (
    "not one cable: check what all nodes of this rail share, the rate and the settings of the switch ports, and PCIe "
    "in the BIOS and on the NICs (ATS, ACS, relaxed ordering)"
)
LEAF = "not one NIC: check the leaf switch of this rail, its uplinks and port settings, and how the rail is cabled"
ONE_WAY = "clean or swap the cable and its transceivers, see symbol errors of both ends; then swap the NIC"
ALONE = "no other node to measure with; rdma_bandwidth.inside measures NIC to NIC in this node"
ERRORS = "rdma_bandwidth.errors"


def say_dead_server(found: RdmaBandwidth, device: str, verdicts: Verdicts) -> None:
    """A rail may be well as a client, and its server may never start: too little memory to register, a taken port."""
    dead = [run for run in found.runs if run.device == device and run.link.role is Role.SERVER and run.server_died]
    if dead and dead[0].trouble is not None:
        verdicts.found(
            Verdict.WARN,
            part=part.named(device),
            text=f"the server of {findings.test_of(dead[0])} ended by itself: {dead[0].trouble.said}",
            action=dead[0].trouble.next_step,
            quantity="server",
            code="server ended",
        )


def why_not(found: RdmaBandwidth, device: str) -> tuple[str, str]:
    """Why a device has no number, and what to do."""
    if device in found.missing:
        said = found.missing[device]
        return said.bare if said.whose == device else said.reason, said.next_step
    for run in found.runs:
        if device in ("", run.device) and run.trouble is not None:
            return f"with {run.partner}: {run.trouble.said}", run.trouble.next_step
    if found.failed:
        return found.failed[-1].reason, found.failed[-1].next_step
    if device and device not in found.planned:
        return "not chosen to be measured", "name the rails of this node in the inventory (nodegate_nics: a list)"
    return "it could be measured with no other node", "check the findings of the other nodes, then run again"


def between(found: RdmaBandwidth, verdicts: Verdicts, *names: str) -> tuple[Metric, ...]:
    """The numbers of these names that were measured between nodes; ends the check where there are none."""
    if not found.partners:
        verdicts.not_done(ALONE)
    metrics = found.named(*names)
    if not metrics:
        reason, step = why_not(found, "")
        hung = any(run.trouble is not None and run.trouble.kind == "link" for run in found.runs)
        verdicts.cannot(reason, next_step=step, blocked_by=ERRORS if hung else "")
    return metrics


def say_numbers(
    found: RdmaBandwidth,
    metrics: tuple[Metric, ...],
    rdma: Rdma,
    verdicts: Verdicts,
    *,
    baseline: Baseline,
    peers: NodePeers,
) -> None:
    """Each number by all comparisons; a low one proves nothing if the other end may be the cause."""
    rates = findings.bounds_of(rdma, in_check=True)
    for metric, said in assessments(metrics, baseline=baseline, peers=peers, physics=rates):
        is_bad = said.verdict is Verdict.FAIL
        unproven = findings.unproven(found, metric, said.limit) if is_bad else ""
        if is_bad and (far := findings.unplaced(found, metric, said.limit)):
            say_unplaced(verdicts, metric, far)
        elif unproven and not findings.slow_everywhere(found, metric, said.limit, peers):
            _say_no_proof(verdicts, metric, unproven, THIRD, THIRD_NODE)
        else:
            verdicts.add(metric_findings.finding_of(metric, said, remedy=SLOW))
            metric_findings.add_proof(verdicts, metric, said)


def say_shares(
    found: RdmaBandwidth,
    metrics: tuple[Metric, ...],
    rdma: Rdma,
    verdicts: Verdicts,
    *,
    baseline: Baseline,
    peers: NodePeers,
    action: str,
) -> None:
    """Each number against its share of the rate; a low one proves nothing if either end may be the cause.

    Unless it is low on every node of the run: then it is none of the ends but what they share. A low one from a program
    that may have run on the other socket proves nothing either.
    """
    for metric in metrics:
        limit = findings.share_of_rate(rdma, metric.device, baseline, metric.name)
        if far := findings.unplaced(found, metric, limit):
            say_unplaced(verdicts, metric, far)
        elif findings.one_port_of_bond(rdma, metric, limit):
            _say_no_proof(verdicts, metric, "the rate of one of the two ports of this bond", BOND, BOTH_PORTS)
        elif not (everywhere := findings.slow_everywhere(found, metric, limit, peers)) and (
            unproven := findings.unproven(found, metric, limit)
        ):
            _say_no_proof(verdicts, metric, unproven, THIRD, THIRD_NODE)
        else:
            verdicts.at_least(
                part=part.named(metric.device),
                quantity=words(metric.name),
                observed=float(f"{metric.judged:.5g}"),
                limit=limit,
                note="no node of the run reaches it on this rail" if everywhere else "",
                action=EVERYWHERE if everywhere else action,
                code="everywhere" if everywhere else "",
            )


def say_unplaced(verdicts: Verdicts, metric: Metric, why: str) -> None:
    """A low number of a program that may have run on the other socket: of the NIC it says nothing."""
    _say_no_proof(verdicts, metric, f"not measured near the NIC: {why}", PLACE, NEAR_PLACE)


def _say_no_proof(verdicts: Verdicts, metric: Metric, why: str, action: str, lacks: str) -> None:
    told = f"{words(metric.name)} {with_unit(metric.judged, metric.unit)}, {why}"
    verdicts.found(Verdict.ERROR, part=part.named(metric.device), text=told, action=action, lacks=lacks)


def say_way_beside(verdicts: Verdicts, metric: Metric, found: Assessment) -> None:
    """One direction that is behind the other nodes, while the other one is not."""
    other = "receiving is not" if metric.name == WAYS[True] else "sending is not"
    verdicts.add(metric_findings.finding_of(metric, found, remedy=ONE_WAY, note=other))


def say_untried(verdicts: Verdicts, device: str, *, has_limit: bool) -> None:
    """That data went one way only, or that there is no limit for it."""
    if has_limit:
        verdicts.left_out(part=part.named(device), text="measured in one direction only")
    else:
        text, action = "RDMA bandwidth has no limit", metric_findings.ADD_A_LIMIT
        verdicts.found(Verdict.NOT_JUDGED, part=part.named(device), text=text, action=action)


def say_ways(verdicts: Verdicts, device: str, ways: dict[str, FaultLocation], far: str) -> None:
    """Whether a rail is slow in one direction alone; `far` says why its programs may have been on the other socket."""
    slow = [(way, blame) for way, blame in ways.items() if blame.bad_with and not blame.good_with]
    rail, quantity = part.named(device), "slow directions"
    if len(slow) != 1:
        verdicts.passed(part=rail, text="sends as well as it receives", quantity=quantity, observed=len(slow))
        return
    ((way, blame),) = slow
    said = f"{way} slowly with {', '.join(blame.bad_with)}"
    if far:
        text = f"{said}, not measured near the NIC: {far}"
        verdicts.found(Verdict.ERROR, part=rail, text=text, action=PLACE, lacks=NEAR_PLACE)
    elif blame.fault is Fault.HERE:
        text = f"{said}, and {'receives' if way == 'sends' else 'sends'} at full rate"
        verdicts.found(Verdict.FAIL, part=rail, text=text, action=ONE_WAY, quantity=quantity, observed=1)
    else:
        text = f"{said}: either end may be at fault"
        verdicts.found(Verdict.ERROR, part=rail, text=text, action=THIRD, lacks=THIRD_NODE)


ORDER = tuple(Fault)
_OF_FAULT = {  # of a transfer that failed: verdict, whose fault, what to do, what is lacking to say more
    Fault.HERE: (Verdict.FAIL, "it fails with every partner", ENDS, ""),
    Fault.EITHER: (Verdict.FAIL, "its only partner, so either end may be at fault", ENDS, ""),
    Fault.UNPROVEN: (Verdict.ERROR, "that partner fails with others too", WITH_GOOD_ONES, OTHER_NODE),
    Fault.PATH: (Verdict.WARN, "both ends work with others", PATH, ""),
}


def say_errors(verdicts: Verdicts, device: str, bad: list[LinkRun], blame: FaultLocation) -> None:
    """Transfers that hung or ended with an error: at this end, at the other, or between them."""
    first = next((run for run in bad if run.partner in blame.bad_with), bad[0])
    said = first.trouble.said if first.trouble else ""
    what, rail = f"{findings.test_of(first)} with {first.partner}: {said}", part.named(device)
    if blame.fault in {Fault.EITHER, Fault.UNPROVEN} and first.name == INSIDE:
        text = f"{what}; on some networks the NICs of one node do not reach each other, and there was no other node"
        verdicts.found(Verdict.ERROR, part=rail, text=text, action=OTHER, lacks=OTHER_NODE)
    elif blame.fault in _OF_FAULT:
        verdict, whom, action, lacks = _OF_FAULT[blame.fault]
        code, quantity = "path" if blame.fault is Fault.PATH else "", "" if lacks else "errors"
        text = f"{what}; {whom}"
        verdicts.found(verdict, part=rail, text=text, action=action, quantity=quantity, code=code, lacks=lacks)
    else:
        verdicts.passed(part=rail, text=f"works with {', '.join(blame.good_with)}; {what}", quantity="errors")


def say_unsteady(
    found: RdmaBandwidth, device: str, verdicts: Verdicts, *, hung: bool, quantity: str = "errors"
) -> bool:
    """A rail that is bad in more of its transfers than chance explains, and well in others; whether it is one."""
    said, often = how_often(found, device, hung=hung)
    if said is not Verdict.PASS:
        text = f"it {often}, more than chance explains: it comes and goes"
        verdicts.found(said, part=part.named(device), text=text, action=ENDS, quantity=quantity, code="unsteady")
    return said is not Verdict.PASS


def say_missing(verdicts: Verdicts, runs: Sequence[LinkRun], metrics: Sequence[Metric]) -> None:
    """The devices that were tried in one test without a number, and why."""
    for device in sorted({run.device for run in runs} - {metric.device for metric in metrics}):
        first = next(run for run in runs if run.device == device)
        reason, step = "no run", "measure this node again"
        if first.trouble is not None:
            reason, step = f"with {first.partner}: {first.trouble.said}", first.trouble.next_step
        verdicts.unknown(part=part.named(device), quantity=words(first.name), reason=reason, action=step)
