"""Whether a fleet is measured again before a node of it is condemned, and for whose sake."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nodegate.baseline.baseline import Baseline
from nodegate.errors import NotJudged
from nodegate.metric import Metric
from nodegate.numbers.assess import Assessment
from nodegate.numbers.assessments import Bounds, assessments
from nodegate.numbers.derived import of_platform
from nodegate.numbers.peers import Earlier, Measured, NodePeers, Peers
from nodegate.records.verdict import Verdict

Suspects = Mapping[str, "tuple[Doubt, ...]"]  # by node; none where it gave no number at all

BEHIND = 0.8  # of the best pair: good pairs are closer together than that, by far
_DOUBTFUL = (Verdict.FAIL, Verdict.WARN)
_Kind = tuple[str, tuple[str, tuple[tuple[str, str], ...]]]  # a platform, and what two metrics must share


@dataclass(frozen=True)
class Doubt:
    """A number that would not pass, and what it would have to reach, in its own unit; None where only others tell."""

    metric: Metric
    enough: float | None = None

    @property
    def far_off(self) -> float:
        """The value that was judged and what is enough, as a ratio: above 1 it is not reached; 1 if unknown."""
        if not self.enough or not self.metric.judged:
            return 1.0
        ratio = self.enough / self.metric.judged
        return 1 / ratio if self.metric.better == "lower" else ratio


def suspects(
    measured: Measured,
    baselines: Mapping[str, Baseline],
    bounds: Mapping[str, Bounds] | None = None,
    earlier: Callable[[str], Earlier | None] = lambda _node: None,
) -> dict[str, tuple[Doubt, ...]]:
    """The nodes with a number that would not pass, for whose sake more looks are taken, and those numbers.

    A number that cannot be judged (no baseline and too few peers), or is in a wrong unit, would be the same the next
    time; but a pair of nodes well below the best pair has a good node in it, perhaps, that deserves another partner. A
    node that gave no number is measured again if others gave one; if none did, the cause is common.

    Args:
        measured: node -> its platform and the numbers of all looks so far.
        baselines: the baseline of each node.
        bounds: what physics allows on each node, where that is not what its platform says.
        earlier: what a node measured in earlier runs.
    """
    peers = Peers.of(measured)
    anyone = any(metrics for _, metrics in measured.values())
    best = _best(measured)
    found: dict[str, tuple[Doubt, ...]] = {}
    for node, (platform, metrics) in measured.items():
        physics = (bounds or {}).get(node, of_platform)
        judged = _judged(metrics, baselines[node], peers.of_node(node, earlier(node)), physics)
        doubts = [Doubt(metric, each.enough) for metric, each in judged if each.again or each.verdict in _DOUBTFUL]
        known = {id(doubt.metric) for doubt in doubts}
        behind = (
            each for each in metrics if id(each) not in known and _is_behind(each, best.get((platform, each.key)))
        )
        doubts += [Doubt(metric) for metric in behind]
        if doubts or (anyone and not metrics):
            found[node] = tuple(doubts)
    return found


def with_their_like(found: Suspects, measured: Measured) -> dict[str, tuple[Doubt, ...]]:
    """The suspects, and all other nodes of their platforms: like is compared with like, by as many looks at each.

    All of them run at once, so it takes no longer than the suspects alone.
    """
    doubted = {measured[node][0] for node in found if node in measured}
    return {**{node: () for node, (platform, _) in measured.items() if platform in doubted}, **found}


def _judged(
    metrics: Sequence[Metric], baseline: Baseline, peers: NodePeers, physics: Bounds
) -> list[tuple[Metric, Assessment]]:
    try:
        return list(assessments(metrics, baseline=baseline, peers=peers, physics=physics, for_a_look=True))
    except NotJudged:
        return []


def _best(measured: Measured) -> dict[_Kind, float]:
    """The best pair of nodes of each kind."""
    found: dict[_Kind, list[float]] = {}
    for platform, metrics in measured.values():
        for metric in metrics:
            if _is_pair(metric):
                found.setdefault((platform, metric.key), []).append(metric.judged)
    return {key: max(values) for key, values in found.items()}


def _is_behind(metric: Metric, best: float | None) -> bool:
    return best is not None and _is_pair(metric) and metric.judged < BEHIND * best


def _is_pair(metric: Metric) -> bool:
    return metric.better == "higher" and metric.conditions.get("group") == "pair"
