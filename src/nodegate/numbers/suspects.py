"""Which nodes are measured again before they are condemned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import NotJudged
from nodegate.numbers.assessments import assessments
from nodegate.numbers.peers import Peers
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.baseline.baseline import Baseline
    from nodegate.metric import Metric
    from nodegate.numbers.peers import Measured, NodePeers

TIMES_MORE = 2  # measurements of a suspect beyond the first: then the best of three decides
BEHIND = 0.8  # of the best pair: good pairs are closer together than that, by far
_DOUBTFUL = (Verdict.FAIL, Verdict.WARN)
_Kind = tuple[str, tuple[str, tuple[tuple[str, str], ...]]]  # a platform, and what two metrics must share


def suspects(measured: Measured, baselines: Mapping[str, Baseline]) -> frozenset[str]:
    """The nodes with a number that would not pass, each to be measured twice more.

    One run in a hundred is disturbed by something else. Judged by one measurement, every fleet of 128 would lose a good
    node; with the suspects measured twice more, none in 10,000 (tests/numbers/test_slow_nodes_simulated.py).

    Exactly the suspects, however many: those that passed have nothing to gain, since a disturbance never makes a
    node faster; and where a third of a fleet is slow, the one per cent of good nodes that was only disturbed still
    deserves its second look, which costs no more time than for a single suspect, for they all run at once. A number
    that cannot be judged (no baseline and too few peers), or is in a wrong unit, would be the same the next time; but
    a pair of nodes well below the best pair has a good node in it, perhaps, that deserves another partner. A node that
    gave no number is measured again where others gave one; where nobody did, the cause is common.

    Args:
        measured: node -> its platform and the numbers of one measurement, from one attempt.
        baselines: the baseline of each node.
    """
    peers = Peers.of(measured)
    anyone = any(metrics for _, metrics in measured.values())
    best = _best(measured)
    return frozenset(
        node
        for node, (platform, metrics) in measured.items()
        if (anyone and not metrics)
        or _doubtful(metrics, baselines[node], peers.of_node(node))
        or any(_is_behind(metric, best.get((platform, metric.key))) for metric in metrics)
    )


def _doubtful(metrics: Sequence[Metric], baseline: Baseline, peers: NodePeers) -> bool:
    try:
        return any(found.verdict in _DOUBTFUL for _, found in assessments(metrics, baseline=baseline, peers=peers))
    except NotJudged:
        return False


def _best(measured: Measured) -> dict[_Kind, float]:
    """The best pair of nodes of each kind."""
    found: dict[_Kind, list[float]] = {}
    for platform, metrics in measured.values():
        for metric in metrics:
            if _is_pair(metric):
                found.setdefault((platform, metric.key), []).append(metric.best)
    return {key: max(values) for key, values in found.items()}


def _is_behind(metric: Metric, best: float | None) -> bool:
    return best is not None and _is_pair(metric) and metric.best < BEHIND * best


def _is_pair(metric: Metric) -> bool:
    return metric.better == "higher" and metric.conditions.get("group") == "pair"
