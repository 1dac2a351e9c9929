"""What every check on measured numbers shares: each metric judged, a finding for each device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate import part
from nodegate.numbers.assessments import assessments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.baseline.baseline import Baseline
    from nodegate.metric import Metric
    from nodegate.numbers.peers import NodePeers
    from nodegate.verdicts import Verdicts

WHOLE_NODE = "node"
_NOTHING = "no number was measured"
_NOTHING_STEP = "see the evidence file of the measurement for what the tool said"


def judge(
    verdicts: Verdicts,
    metrics: Sequence[Metric],
    *,
    baseline: Baseline,
    peers: NodePeers,
    remedy: str,
) -> None:
    """Leave a finding for each metric of each device: by the baseline, the fleet and the node's own past.

    Raises:
        CannotMeasure: there are no metrics: nothing was measured, so nothing passes.
        NotJudged: the baseline lacks a margin (measured.*).
    """
    if not metrics:
        verdicts.cannot(_NOTHING, next_step=_NOTHING_STEP)
    for metric, found in assessments(metrics, baseline=baseline, peers=peers):
        verdicts.found(
            found.verdict,
            part=part.named(metric.device),
            action=remedy,
            quantity=label(metric.name),
            metric=metric.name,
            note=found.note,
            share=found.share,
            observed=round(found.value, 6),
            unit=metric.unit,
            limit=found.limit,
        )


def label(name: str) -> str:
    """A metric's name in words: "nccl.all_reduce_gb_per_s" is "all_reduce"."""
    short = name.rpartition(".")[2]
    for suffix in ("_gb_per_s", "_tflops", "_gbps", "_us", "_mhz", "_w", "_c"):
        if short.endswith(suffix):
            return short.removesuffix(suffix)
    return short
