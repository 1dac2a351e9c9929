"""Latency and distance: a switch more on the way makes a pair late without a fault; a NIC's own delay is a fault."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from nodegate.metric import Statistic
from nodegate.numbers.margins import Margins
from nodegate.numbers.pool import PeerGroup
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline
    from nodegate.measure.rdma.result import RdmaBandwidth
    from nodegate.metric import Metric
    from nodegate.numbers.assess import Assessment
    from nodegate.numbers.peers import NodePeers

TIER = "rdma.latency_tier_percent"
_SIBLINGS = 3  # other rails of a node that met the same partner, from which on they say how far it is
_FARTHER = "as far as one more tier of switches, on all rails of this node alike"


def nearest(metric: Metric, baseline: Baseline) -> Metric:
    """The number of a device without those of partners that are further away: they make no NIC unsteady."""
    return replace(metric, values=(metric.best,)) if baseline.statistic is Statistic.BEST else metric


def excused(
    measured: RdmaBandwidth, metric: Metric, found: Assessment, baseline: Baseline, peers: NodePeers
) -> Assessment:
    """A rail later than those of other nodes, if its node is only further away from all of them: a warning.

    A whole node may hang on a leaf of its own. Then all its rails are late alike with each partner, and no more than by
    one tier of switches. A rail that is later than its neighbours on the way to the same nodes has that of its own.
    """
    tier = baseline.find_number(TIER)
    group = peers.group(metric, Margins.of(baseline))
    if found.verdict is not Verdict.FAIL or found.comparison != "fleet" or tier is None:
        return found
    if (
        not isinstance(group, PeerGroup)
        or metric.best > group.median * (1 + tier.value / 100)
        or not _is_alike(measured, metric, baseline)
    ):
        return found
    return replace(found, verdict=Verdict.WARN, note=f"{found.note}; {_FARTHER}" if found.note else _FARTHER)


def _is_alike(measured: RdmaBandwidth, metric: Metric, baseline: Baseline) -> bool:
    """Whether the other rails of the node are as late with the partners with which this one is best."""
    by_partner: defaultdict[str, list[float]] = defaultdict(list)
    for run in measured.of(metric.name):
        if run.value is not None and run.device != metric.device:
            by_partner[run.link.peer].append(run.value)
    own = [run for run in measured.of(metric.name, metric.device) if run.value == metric.best]
    floor = 1 + Margins.of(baseline).latency_floor
    with_others = [by_partner[run.link.peer] for run in own]
    return any(len(each) >= _SIBLINGS and metric.best <= floor * median(each) for each in with_others)
