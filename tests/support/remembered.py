"""A fleet's record for tests: runs of made-up nodes are kept in it, and what it knows of a node is asked."""

from nodegate.past.keys import CHASSIS, KeptNode, KeptRun, Keys, Placed
from nodegate.records.finding import Record
from nodegate.records.run import NodeReport, Run
from nodegate.records.verdict import NodeVerdict, Verdict

DAY_S, BEGIN_S = 86400.0, 1_790_000_000.0


def placed(**serials):
    """Parts of a node: chassis="C1", gpu3="165000", mlx5_0="..."."""
    names = {name: name.replace("gpu", "GPU ") if name.startswith("gpu") else name for name in serials}
    return tuple(Placed(names[name], serial) for name, serial in serials.items())


def keep(
    record,
    run,
    at,
    measured,
    *,
    parts=None,
    sound=True,
    causes=(),
    traits=None,
    events=(),
    shared=frozenset(),
    judged=(),
    profile="nightly",
):
    """A run that began `at` (seconds since the epoch), in which these nodes measured this."""
    verdict = NodeVerdict.ACCEPTED if sound else NodeVerdict.REJECTED
    nodes = [
        KeptNode(
            NodeReport(
                name, verdict, "hgx-h100-8", records=tuple(Record(name, each, Verdict.PASS, ()) for each in judged)
            ),
            sound,
            tuple(cause for cause in causes if name in cause.nodes),
            (parts or {}).get(name, ()),
            traits or {},
            tuple(each for each in events if each.node == name),
        )
        for name in measured
    ]
    record.keep(KeptRun(Run(run, profile, at, at + 60.0, "0"), "", nodes, shared, lambda name: measured[name]))


def past_of(record, node, before_epoch_s, *devices, parts=()):
    """What a run would compare this node with; by default the node as a whole."""
    found = record.known(Keys(node, parts), devices or ("",), before_epoch_s)
    assert not record.lost
    return {key: list(values) for key, values in found.items()}


__all__ = ["BEGIN_S", "CHASSIS", "DAY_S", "keep", "past_of", "placed"]
