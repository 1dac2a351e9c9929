"""NCCL over groups of nodes: pairs of neighbours, racks, the whole fleet; and which node is at fault if one fails.

Pairs come first: a good partner shows which of two neighbours is bad. A rack or a fleet that hangs, fails or is
slow is halved until the node is isolated (bisection), and launched again without it. A collective over many nodes is as
fast as its slowest node, and hangs with any that does; so a bad group says nothing about the single node, and does not
count against it.
"""

from collections.abc import Sequence

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.measure.durations import OF_PROFILE, Durations
from nodegate.measure.groups import second_looks
from nodegate.measure.groups.findings import bounds_of
from nodegate.measure.groups.group_node import COLLECTIVES
from nodegate.measure.groups.launch_session import LaunchSession
from nodegate.measure.groups.result import is_settled, parse
from nodegate.measure.groups.tour import Tour
from nodegate.measure.measurement import Inapplicable, Measurement, Pool, Runs, Target, split_by_mig
from nodegate.measure.nccl.launches import RESTS_ON
from nodegate.measure.nccl.run import gpu_count
from nodegate.numbers.assessments import Suspects
from nodegate.profile import Profile

ALL_KINDS_FROM_S = OF_PROFILE[Profile.DELIVERY].group_s  # a run as thorough as this launches racks and the fleet too


def applies(facts: NodeFacts) -> Inapplicable | None:
    """Why there is nothing to measure on a node. GPUs that cannot be read are reported when it is measured."""
    try:
        return split_by_mig(facts) if gpu_count(facts) else Inapplicable("no GPUs")
    except CannotMeasure:
        return None


def measure(targets: Sequence[Target], pool: Pool) -> Runs:
    """Pairs, then racks and the fleet if the profile asks for them; each with the search for the node at fault."""
    with LaunchSession(targets, pool) as launch_session:
        for ready in launch_session.pools():
            if len(ready) < 2:
                like = f"{ready[0].gpus} x {ready[0].model}, the same path of nccl-tests and the same settings"
                why = f"no other node with {like}" if len(targets) > 1 else "no other node takes part"
                launch_session.note_alone(ready[0].name, why)
                continue
            tour = Tour(launch_session, ready, pool)
            well = tour.pairs()
            if targets[0].durations.group_s >= ALL_KINDS_FROM_S:
                tour.big(well)
    return launch_session.runs


def again(targets: Sequence[Target], pool: Pool, suspects: Suspects) -> Runs:
    """Suspects with nodes that passed; and the racks and fleets that were slow, until it is known by which nodes."""
    kept = set(suspects)
    with LaunchSession(targets, pool) as launch_session:
        for ready in launch_session.pools():
            names = [member.name for member in ready]
            slow = second_looks.slow_launches({name: doubts for name, doubts in suspects.items() if name in names})
            # Launches over many nodes have one value for all of them: who is a suspect only for these is in no pair.
            own = {name for name, doubts in suspects.items() if not (doubts and all(d.metric.launch for d in doubts))}
            bad = [name for name in names if name in own]
            if len(names) < 2 or not (bad or slow):
                continue
            tour = Tour(launch_session, ready, pool)
            good = [name for name in names if name not in bad]
            pairs_again = second_looks.PairsAgain(tour, suspects)
            well = pairs_again.run(bad, good) if bad else frozenset(names)
            kept |= pairs_again.compared
            second_looks.SlowLaunches(tour, pairs_again.slow_again().union(set(names) - well)).run(slow)
    found = launch_session.runs.items()
    return {name: attempt for name, attempt in found if name in kept and (attempt.runs or attempt.cannot)}


def takes_s(durations: Durations) -> float:
    """About how long it takes if nothing is wrong: each launch starts, runs and ends in about 20 s."""
    return min(20.0, durations.group_s) * len(COLLECTIVES) * (3 if durations.group_s >= ALL_KINDS_FROM_S else 1)


NCCL_GROUPS = Measurement(
    name="nccl_groups",
    stage="fabric",
    applies=applies,
    rests_on=RESTS_ON,
    measure=measure,
    again=again,
    parse=parse,
    takes_s=takes_s,
    bounds=lambda facts: bounds_of(facts.rdma),
    settled=is_settled,
)
