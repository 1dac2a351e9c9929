"""A number of a node beside what its batch, its place on all nodes and other software explain of it."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from nodegate.metric import Metric
from nodegate.numbers import against_others
from nodegate.numbers.batches import OF_BATCH, Batch
from nodegate.numbers.comparison import Comparison
from nodegate.numbers.gap import beyond, gap, limit_of, worse_by
from nodegate.numbers.margins import Margins
from nodegate.numbers.peers import NoPeers
from nodegate.numbers.pool import PeerGroup
from nodegate.records.verdict import Verdict

_DOUBTS = (Verdict.WARN, Verdict.FAIL)


def fleet(
    metric: Metric, value: float, group: PeerGroup | NoPeers, margins: Margins, batches: Sequence[Batch] = ()
) -> Comparison:
    """Against the other nodes; what the node's batch is behind is the batch's, which has a finding of its own.

    With other software than the others a value has more room before it fails.
    """
    found = against_others.fleet(metric, value, group, margins)
    if found.verdict in _DOUBTS and batches:
        lifted = value * prod(batch.factor for batch in batches)
        if against_others.fleet(metric, lifted, group, margins).verdict is Verdict.PASS:
            said = f"as the other nodes of {' and of '.join(batch.name for batch in batches)}"
            return replace(found, verdict=Verdict.PASS, said=said, limit=None)
    if isinstance(group, PeerGroup) and group.unequal:
        return _with_other_software(metric, value, group, margins, found)
    return found


def _with_other_software(
    metric: Metric, value: float, group: PeerGroup, margins: Margins, found: Comparison
) -> Comparison:
    behind = worse_by(metric, value, group.median)
    may_be = found.verdict is Verdict.FAIL and behind <= margins.unequal_floor * abs(group.median)
    said = f"{found.said}; measured with {group.unequal}"
    return replace(found, verdict=Verdict.WARN if may_be else found.verdict, said=said)


def of_batch(metric: Metric, batch: Batch, margins: Margins) -> Comparison:
    """What is said of all nodes of a batch alike: they are slower than the rest, by how much, and what they share.

    Slower by the effect that is sought they fail, where they are fewer than the rest; else it is a warning, for they
    are as good as each other, and which of the two parts is right the fleet cannot know.
    """
    most = margins.unequal_floor if batch.unequal else margins.batch_floor
    verdict = Verdict.FAIL if batch.behind > most and batch.of <= batch.others else Verdict.WARN
    least = most if verdict is Verdict.FAIL else max(batch.bound, margins.fleet_floor)
    bound = limit_of(metric, round(beyond(metric, batch.rest, least * batch.rest), 6), "fleet")
    return Comparison(verdict, f"{OF_BATCH}{batch.names[0]}", _words(metric, batch), bound)


def _words(metric: Metric, batch: Batch) -> str:
    """What is said of all of them: rack r7: 8 nodes 5.1 % below the other 56."""
    count = str(batch.nodes) if batch.nodes == batch.of else f"{batch.nodes} of {batch.of}"
    said = f"{batch.name}: {count} nodes {gap(metric, batch.median, batch.rest)} the other {batch.others}"
    return f"{said}, measured with other software" if batch.unequal else said
