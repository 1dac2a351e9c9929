"""All the numbers of one node, each judged with what it is compared with."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from nodegate.baseline.baseline import Baseline
from nodegate.baseline.entry import Entry
from nodegate.metric import Metric
from nodegate.numbers.against_others import Reference
from nodegate.numbers.assess import Assessment, assess, of_batch
from nodegate.numbers.derived import Physics, of_platform
from nodegate.numbers.margins import Margins
from nodegate.numbers.node_figures import key_of_devices, node_figures
from nodegate.numbers.own_past import Pasts
from nodegate.numbers.peers import NodePeers
from nodegate.numbers.pool import PeerGroup
from nodegate.records import part
from nodegate.records.finding import AnyLimit
from nodegate.records.verdict import Verdict

Bounds = Callable[[Metric, Baseline], Physics]

_MIN_DEVICES = 3  # of two other devices that differ, either may be the odd one


def assessments(
    metrics: Sequence[Metric],
    *,
    baseline: Baseline,
    peers: NodePeers,
    physics: Bounds = of_platform,
    for_a_look: bool = False,
) -> Iterator[tuple[Metric, Assessment]]:
    """Each metric of a node with what is said of it; then the node as a whole, and what it is part of.

    The node as a whole, and the rack or batch that it is of, are mentioned where they are behind the others.

    Args:
        metrics: what was measured.
        baseline: the limits of the node.
        peers: the other nodes.
        physics: says what is possible; by default the peaks of the platform do.
        for_a_look: whether to be as strict as for measuring again, instead of for a verdict.

    Raises:
        NotJudged: the baseline lacks a margin (measured.*).
    """
    margins = Margins.of(baseline).for_a_look() if for_a_look else Margins.of(baseline)
    alike: defaultdict[object, list[Metric]] = defaultdict(list)
    for metric in metrics:
        alike[metric.key].append(metric)
    pasts = {key: Pasts(group, peers.earlier) for key, group in alike.items()}
    kept: defaultdict[object, list[AnyLimit | None]] = defaultdict(list)
    bounds = [physics(metric, baseline) for metric in metrics]
    like: defaultdict[object, list[str]] = defaultdict(list)
    for metric, bound in zip(metrics, bounds, strict=True):
        like[metric.key, bound.peak].append(metric.device)
    for metric, bound in zip(metrics, bounds, strict=True):
        group = peers.group(metric, margins, baseline.statistic)
        found = assess(
            metric,
            right(baseline, metric.name),
            group,
            margins,
            physics=bound,
            inside=None if isinstance(group, PeerGroup) else _inside(metric, alike[metric.key], peers),
            history=pasts[metric.key].of(metric, group, margins),
            statistic=baseline.statistic,
            batches=peers.batches(metric, margins),
            slot=peers.slot(metric, like[metric.key, bound.peak], margins),
        )
        kept[metric.name].append(found.kept)
        yield metric, found
    for metric, found in _of_the_whole(metrics, pasts, peers, margins):
        held = kept.get(metric.name, [None])
        yield metric, replace(found, kept=held[0] if all(held) else None)


def _of_the_whole(
    metrics: Sequence[Metric], pasts: Mapping[object, Pasts], peers: NodePeers, margins: Margins
) -> Iterator[tuple[Metric, Assessment]]:
    """What is said of the node, and of its batches, where it is bad."""
    figures = node_figures(metrics)
    for figure in figures:
        group = peers.group(figure, margins)
        if isinstance(group, PeerGroup):
            past = pasts[key_of_devices(figure)].of_node(figure, group, margins)
            found = assess(figure, None, group, margins, history=past, batches=peers.batches(figure, margins))
            if found.verdict in (Verdict.WARN, Verdict.FAIL):
                yield figure, replace(found, whole=True)
    names = {metric.name for metric in metrics}
    for joined in peers.joined():
        group = peers.group(joined.metric, margins)
        if joined.worst in names and isinstance(group, PeerGroup):
            found = assess(joined.metric, None, group, margins)
            if found.again or found.verdict in (Verdict.WARN, Verdict.FAIL):
                yield joined.metric, replace(found, whole=True, worst=joined.worst)
    for whole in (*figures, *(metric for metric in metrics if not metric.device)):
        for batch in peers.batches(whole, margins):
            yield whole, of_batch(whole, batch, margins)


def right(baseline: Baseline, name: str) -> Entry | AnyLimit | None:
    """What the baseline says of a metric: the inventory's word first, else the entry with peak and parameters."""
    return baseline.overrides.get(name) or baseline.entry(name)


def _inside(metric: Metric, alike: Sequence[Metric], peers: NodePeers) -> Reference | None:
    others = [each.judged for each in alike if each.device != metric.device]
    if not metric.device or len(others) < _MIN_DEVICES:
        return None
    spread, freedom, judged = peers.inside(metric)
    return Reference(median(others), len(others), f"other {_kind(metric)} of this node", spread, freedom, judged)


def _kind(metric: Metric) -> str:
    return "GPUs" if part.named(metric.device).kind is part.Kind.GPU else "NICs"
