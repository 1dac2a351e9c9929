"""What every check on measured numbers shares: each metric judged, a finding for each device."""

from collections.abc import Sequence

from nodegate.baseline.baseline import Baseline
from nodegate.metric import DIGITS, Metric
from nodegate.metric_names import words
from nodegate.numbers.assessments import Assessment, Bounds, assessments
from nodegate.numbers.limits import of_platform
from nodegate.numbers.peers import NodePeers
from nodegate.numbers.quantities import OF, TOGETHER
from nodegate.records import part
from nodegate.records.finding import Finding
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.verdicts import Verdicts

ADD_A_LIMIT = "add a limit for this platform: nodegate baseline learn, or --baseline"
_MEASURE = "look at the evidence file and at the baseline; one of the two is wrong"
_COLLECTIVE = "nccl."
_GROUPS = {"pair": "with one other node", "rack": "in the rack", "fleet": "over the fleet"}


def judge(
    verdicts: Verdicts,
    metrics: Sequence[Metric],
    *,
    baseline: Baseline,
    peers: NodePeers,
    remedy: str,
    physics: Bounds = of_platform,
) -> None:
    """Leave a finding for each metric of each device: by the baseline, the fleet and the node's own past.

    Raises:
        CannotMeasure: there are no metrics: nothing was measured, so nothing passes.
        NotJudged: the baseline lacks a margin (measured.*).
    """
    if not metrics:
        step = "see the evidence file of the measurement for what the tool said"
        verdicts.cannot("no number was measured", next_step=step)
    for metric, found in assessments(metrics, baseline=baseline, peers=peers, physics=physics):
        verdicts.add(finding_of(metric, found, remedy=remedy))
        add_proof(verdicts, metric, found)


def add_proof(verdicts: Verdicts, metric: Metric, found: Assessment) -> None:
    """A part that is only warned of, and keeps its own absolute limit, says so: a warning proves no claim."""
    by_others = found.limit is not None and (found.whole or not found.limit.kind.is_absolute)
    if found.verdict is Verdict.WARN and by_others and found.kept is not None:
        whose, value = part_of(metric), round(found.value, DIGITS)
        verdicts.add(Finding(whose, Verdict.PASS, quantity_of(metric), value, metric.unit, found.kept))


def finding_of(metric: Metric, found: Assessment, *, remedy: str, quantity: str = "", note: str = "") -> Finding:
    """The finding that an assessment is.

    `remedy` is what to do where it is bad (of a batch the causes say it), `quantity` what it is called where not by its
    own words, `note` what is to be known besides.
    """
    quantity = quantity or quantity_of(metric)
    error = found.verdict is Verdict.ERROR
    actions = {Verdict.ERROR: _MEASURE, Verdict.NOT_JUDGED: ADD_A_LIMIT}
    is_figure = OF in metric.conditions and found.verdict is Verdict.PASS  # no value of a device, beside theirs
    most = f"most in {words(found.worst)}" if found.worst else ""
    return Finding(
        part_of(metric),
        found.verdict,
        quantity,
        observed=round(found.value, DIGITS),
        unit=metric.unit,
        limit=found.limit,
        text=_text(metric, quantity, found),
        note="" if error or found.is_of_batch else "; ".join(filter(None, (found.note, most, note))),
        action=actions.get(found.verdict, remedy),
        code=found.code,
        metric="" if is_figure else metric.name,
        share=found.share,
    )


def _text(metric: Metric, quantity: str, found: Assessment) -> str:
    if found.is_of_batch:
        return f"{found.note} in {words(metric.name) if metric.name.startswith('burn.') else quantity}"
    return found.note if found.verdict is Verdict.ERROR else f"{quantity} {found.text}" if found.text else ""


def part_of(metric: Metric) -> Part:
    """The part that a metric is about: a device, a collective, else the node."""
    if not metric.device and metric.name.startswith(_COLLECTIVE):
        return part.collective(words(metric.name))
    return part.named(metric.device)


def quantity_of(metric: Metric) -> str:
    """What was measured, in words that follow the part."""
    if TOGETHER in metric.conditions:
        return f"{metric.name.partition('.')[2]} together"
    if OF in metric.conditions:
        return f"{words(metric.name)}, median of {metric.conditions[OF]}"
    if metric.device or not metric.name.startswith(_COLLECTIVE):
        return words(metric.name)
    return f"bus bandwidth {_GROUPS.get(metric.conditions.get('group', ''), '')}".rstrip()
