"""Findings of copies with the host, each in the words of PCIe; what makes them slow by design is named, not blamed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nodegate.baseline.baseline import Baseline
from nodegate.measure.copies.document import ALONE, GpuCopies, LinkAbove
from nodegate.measure.copies.findings import RESEAT
from nodegate.measure.copies.result import Copies
from nodegate.measure.own_program import facts_by_index
from nodegate.metric import Metric
from nodegate.numbers.assessments import Assessment, assessments
from nodegate.numbers.limits import share_of
from nodegate.numbers.metric_findings import add_proof, finding_of
from nodegate.numbers.peers import NodePeers
from nodegate.probe.gpu import Gpu, Gpus
from nodegate.records.finding import AT_LEAST, Finding, Limit, LimitKind, NumberLimit, share_left
from nodegate.records.verdict import Verdict
from nodegate.subjects.pcie import capacity, link_of
from nodegate.unknown import Unknown, both, value_or
from nodegate.verdicts import Verdicts

BEHIND = "look behind the link: the PCIe switch above it, IOMMU and ACS settings, memory channels of its CPU"
ENCRYPTED = "compare with nodes that have confidential computing on; without it the limits of the platform hold"
OF_THE_HOST = "if this host is built so (GCP A2, AWS p4d), give the platform its own limit, else look at its slots"
_NEWEST = 5  # the generation that is named where NVML does not say what the GPU has
_SHARE = "derived.host_copies_percent"
_OLD_HOST = 3, 16  # of clouds whose GPUs are behind switches of Gen4
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s
_IN_A_MACHINE = ("pass-through", "vGPU")


@dataclass(frozen=True)
class Design:
    """Why copies with the host may rightly be slow, what to do, and what they reach at least; None if unknown."""

    says: str
    action: str
    carried: float | None = None


def judge_rates(
    metrics: Sequence[Metric], copies: Copies, gpus: Gpus, *, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Rates of host copies, ours or nvbandwidth's, each in the words of PCIe and beside the link that NVML saw.

    Besides baseline, fleet and past, half of what the link carries is asked for: a rate that half of its lanes would
    give as well is no rate of that link.
    """
    known = facts_by_index(gpus, copies.gpus)
    for metric, found in assessments(metrics, baseline=baseline, peers=peers):
        index = int(metric.device.removeprefix("GPU ")) if metric.device else None  # none: the median of all
        several = copies.gpus.get(index) if index is not None else None
        if several and index is not None:
            verdicts.add(_finding(metric, found, several[-1], known.get(index), baseline))
        else:
            verdicts.add(finding_of(metric, found, remedy=RESEAT))
        add_proof(verdicts, metric, found)


def _finding(metric: Metric, found: Assessment, gpu: GpuCopies, facts: Gpu | None, baseline: Baseline) -> Finding:
    gives = link_of(found.value, value_or(facts.link_gen_max, _NEWEST) if facts else _NEWEST)
    seen = both(gpu.links[ALONE].gen, gpu.links[ALONE].width, lambda gens, widths: (gens[1], widths[1]))
    link, carried = ("", None) if isinstance(seen, Unknown) else (f"Gen{seen[0]} x{seen[1]}", capacity(*seen))
    note = f"{gives}, while the link ran at {link}" if link else f"{gives} (NVML did not read the link)"
    design = design_of(gpu, found.value, carried)
    held = _by_design(found, design, baseline) if design else None
    if design and held:
        return finding_of(metric, held, remedy=design.action, note=f"{note}; {design.says}")
    # Where the link ran at all that GPU and slot have, it is not what is slow.
    most = both(facts.link_gen_max, facts.link_width_max, lambda gen, width: (gen, width)) if facts else None
    is_whole = isinstance(seen, tuple) and isinstance(most, tuple) and seen[0] >= most[0] and seen[1] >= most[1]
    remedy = BEHIND if is_whole else RESEAT
    return finding_of(metric, _held_to_link(found, link, carried), remedy=remedy, note=note)


def design_of(gpu: GpuCopies, value: float, carried: float | None) -> Design | None:
    """What makes a GPU's way to the host slower than its link, which carries so many GB/s, and no slower than `value`.

    The ports that a virtual machine shows are made up.
    """
    if gpu.confidential is True:
        return Design("confidential computing is on: copies go through encrypted bounce buffers", ENCRYPTED)
    if gpu.virtualization in _IN_A_MACHINE:
        least = capacity(*_OLD_HOST) or 0.0
        says = f"a virtual machine ({gpu.virtualization}) does not show its host's PCIe: one of Gen3 gives as much"
        return Design(says, OF_THE_HOST, least) if carried and value <= least < carried else None
    narrow = [(_carries(each), each) for each in gpu.above if carried and value <= _carries(each) < carried]
    if not narrow:
        return None
    least, port = min(narrow, key=lambda each: each[0])
    words = f"Gen{_GENERATIONS.get(float(str(port.speed_gts)), 0)} x{port.width}"
    return Design(f"the port above it, {port.address}, has no more than {words}", OF_THE_HOST, least)


def _by_design(found: Assessment, design: Design, baseline: Baseline) -> Assessment | None:
    """A warning where the platform's limit alone objects, and the way to the host gives no more; else None."""
    if design.carried is None:
        return found
    if found.verdict is not Verdict.FAIL or found.limit is None or found.note or not found.limit.kind.is_absolute:
        return None
    least = share_of(baseline, _SHARE, design.carried, "GB/s", design.says)
    return replace(found, verdict=Verdict.WARN) if least is not None and least.value <= found.value else None


def _carries(port: LinkAbove) -> float:
    """What a link above a GPU carries, if it runs at all that its port has; else 0: then it says nothing of design."""
    speed, width = port.speed_gts, port.width
    if isinstance(speed, Unknown) or speed is None or isinstance(width, Unknown) or width is None:
        return 0.0
    is_at_most = (speed, width) == (port.speed_max_gts, port.width_max)
    return (capacity(_GENERATIONS.get(speed, 0), width) or 0.0) if is_at_most else 0.0


def _held_to_link(found: Assessment, link: str, carried: float | None) -> Assessment:
    """The assessment, or a warning where nothing else objects to less than half of what the link carries in GB/s."""
    if not carried or found.value >= carried / 2 or found.verdict not in {Verdict.PASS, Verdict.NOT_JUDGED}:
        return found
    source = f"half of what its {link} link carries"
    half: NumberLimit = Limit(carried / 2, "GB/s", source, AT_LEAST, LimitKind.DERIVED)
    return replace(found, verdict=Verdict.WARN, note="", limit=half, share=share_left(found.value, half))
