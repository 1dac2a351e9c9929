"""What changed between two runs, by cause and by number, and where a number changed its level for good.

What the later run did not look at is not gone.
"""

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median

from nodegate.errors import NotJudged, UsageError
from nodegate.metric import Metric
from nodegate.numbers.comparison import Margins, floor_of, gap
from nodegate.numbers.spread import mad, robust
from nodegate.records.verdict import NodeVerdict

LEAST_RUNS = 6  # of a series, from which on its own noise is known
_WORSE = ("warn", "error", "fail")
_UNJUDGED = "node.judged"  # the cause of a node that cannot be reached has no check
_RUN = "select name, started_epoch_s, profile from runs where id = ?"
_DECISIONS = """
select node, verdict, text from decisions join texts on texts.id = judged where run = ?
"""
_CAUSES = """
select problems.cause, problems.node, problems.place, condition, severity, verdict, texts.text, check_id
from causes join problems on problems.id = causes.problem join texts on texts.id = causes.text
where run = ? and verdict in ('warn', 'error', 'fail') and waiver = ''
"""
_NUMBERS = """
select parts.key, metric, conditions, unit, value, numbers.series from numbers
join sequences on sequences.id = numbers.series join parts on parts.id = sequences.part
join quantities on quantities.id = sequences.quantity where run = ?
"""
_SERIES = """
select value from numbers join runs on runs.id = run join sequences on sequences.id = numbers.series
join parts on parts.id = sequences.part join quantities on quantities.id = sequences.quantity
where parts.key = ? and metric = ? and conditions = ? and unit = ? and sound order by started_epoch_s
"""
_PLACES = "select key, node, slot from places join parts on parts.id = part where from_epoch_s <= ? and to_epoch_s >= ?"
_Number = tuple[str, str, str, str]  # part, metric, conditions, unit
LEAST = 2  # values on each side: one run that was disturbed changes nothing


@dataclass(frozen=True)
class Problem:
    """A cause as a run had it."""

    node: str
    place: str
    condition: str
    severity: str
    verdict: str
    text: str
    check: str


@dataclass(frozen=True)
class Side:
    """One of two runs. `judged` are the checks of each node that said pass, warn or fail."""

    name: str
    started_s: float
    profile: str
    verdicts: Mapping[str, str]
    judged: Mapping[str, frozenset[str]]
    problems: Mapping[str, Problem]
    numbers: Mapping[_Number, float]
    places: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Moved:
    """A number that is another now, beyond its noise and by more than is worth a word."""

    node: str
    device: str
    metric: str
    unit: str
    before: float
    after: float

    @property
    def words(self) -> str:
        """How far: "6.0 % below"."""
        return gap(Metric(self.metric, (self.after,), self.unit), self.after, self.before)


@dataclass
class Difference:
    """What is new, still there, gone, and not looked at again; of nodes that both runs had."""

    new: list[Problem] = field(default_factory=list)
    still: list[Problem] = field(default_factory=list)
    gone: list[Problem] = field(default_factory=list)
    unseen: list[Problem] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether anything is that was not before."""
        return bool(self.new or self.moved)


def side(base: sqlite3.Connection, run: int) -> Side:
    """A run as the record has it."""
    name, started, profile = base.execute(_RUN, (run,)).fetchone()
    rows = base.execute(_DECISIONS, (run,)).fetchall()
    return Side(
        name,
        started,
        profile,
        {node: verdict for node, verdict, _ in rows},
        {node: frozenset(judged.split()) for node, _, judged in rows},
        {cause: Problem(*rest) for cause, *rest in base.execute(_CAUSES, (run,))},
        {(part, metric, under, unit): value for part, metric, under, unit, value, _ in base.execute(_NUMBERS, (run,))},
        {key: (node, slot) for key, node, slot in base.execute(_PLACES, (started, started))},
    )


def difference(base: sqlite3.Connection | None, before: Side, after: Side, margins: Margins | None) -> Difference:
    """What changed from one run to another. `base` knows the noise of numbers; without it that of the suite is taken.

    Without `margins` no numbers are compared.

    Raises:
        UsageError: they have no node in common.
    """
    both = before.verdicts.keys() & after.verdicts.keys()
    if not both:
        hint = "name two runs over the same nodes"
        raise UsageError(f"{before.name} and {after.name} have no node in common", hint=hint)
    found = Difference(
        only_before=tuple(sorted(before.verdicts.keys() - both)), only_after=tuple(sorted(after.verdicts.keys() - both))
    )
    for cause, problem in after.problems.items():
        earlier = before.problems.get(cause)
        if earlier is None or _WORSE.index(earlier.verdict) < _WORSE.index(problem.verdict):
            found.new.append(problem)
        else:
            found.still.append(problem)
    for cause, problem in before.problems.items():
        if cause not in after.problems:
            was_looked_at = problem.check in after.judged.get(problem.node, ())
            if problem.check == _UNJUDGED:
                was_looked_at = after.verdicts.get(problem.node, NodeVerdict.UNREACHABLE) != NodeVerdict.UNREACHABLE
            (found.gone if was_looked_at else found.unseen).append(problem)
    found.moved = list(_moved(base, before, after, margins)) if margins is not None else []
    return found


def _moved(base: sqlite3.Connection | None, before: Side, after: Side, margins: Margins) -> Iterator[Moved]:
    for key, value in after.numbers.items():
        part, metric, _, unit = key
        earlier = before.numbers.get(key)
        if earlier is None or not (math.isfinite(value) and math.isfinite(earlier)):
            continue
        about = Metric(metric, (earlier,), unit)
        step = abs(value - earlier)
        if step <= floor_of(about, earlier, margins.history_floor, margins):
            continue
        # how far one run of this number is off by chance, in its unit
        known = [each for (each,) in base.execute(_SERIES, key)] if base else []
        noise = noise_of(known) if len(known) >= LEAST_RUNS else margins.past_noise / math.sqrt(2) * abs(earlier)
        if step > margins.past_z * math.sqrt(2) * noise:
            node, slot = _where(part, after)
            yield Moved(node, slot, metric, unit, earlier, value)


def _where(part: str, after: Side) -> tuple[str, str]:
    """Node and device of a part: of a port those of its adapter."""
    board, _, port = part.rpartition(":")
    if part in after.places:
        node, slot = after.places[part]
        return node, "" if slot == "chassis" else slot
    if board in after.places:
        node, slot = after.places[board]
        return node, f"{slot}:{port}"
    owner, _, device = part.partition("/")
    return (after.places[owner][0] if owner in after.places else owner.removeprefix("node ")), device


def folded(moved: list[Moved]) -> list[tuple[str, str, list[Moved]]]:
    """Those of one node and quantity that went the same way together, the furthest first."""
    groups = defaultdict[tuple[str, str, bool], list[Moved]](list)
    for each in moved:
        groups[each.node, each.metric, each.after > each.before].append(each)
    found = [(node, metric, own) for (node, metric, _), own in groups.items()]
    return sorted(found, key=lambda row: -max(abs(each.after / each.before - 1) for each in row[2] if each.before))


def margins_of_suite() -> Margins:
    """The margins that the suite ships, from the one file that has them: reading all takes longer than a question.

    Raises:
        UsageError: it lacks one.
    """
    from nodegate.baseline import baseline_file  # noqa: PLC0415 - only where numbers are shown
    from nodegate.baseline.baseline import Baseline  # noqa: PLC0415
    from nodegate.files.paths import BASELINES, suite_folder  # noqa: PLC0415

    file = suite_folder(BASELINES) / "common.yaml"
    try:
        return Margins.of(Baseline("", "", "", "", "", baseline_file.read(file).limits))
    except NotJudged as said:
        raise UsageError(str(said), file=str(file)) from None


def noise_of(values: Sequence[float]) -> float:
    """How far two runs lie apart by chance, in the unit: from the differences of runs in a row, without any drift."""
    differences = [after - before for before, after in pairwise(values)]
    return robust(mad(differences, 0.0)) / math.sqrt(2) if differences else 0.0


def least_step(metric: str, unit: str, usual: float, margins: Margins) -> float:
    """The smallest difference that is worth a word, in the unit."""
    about = Metric(metric, (usual,), unit)
    return floor_of(about, usual, margins.drift_floor, margins)


def changes(values: Sequence[float], least: float, sigmas: float, begin: int = 0) -> Iterator[int]:
    """The places in a series, oldest first, from which on the level is another; `least` is in its unit.

    The surest split, then those of its halves (binary segmentation: Scott and Knott 1974).
    """
    noise = noise_of(values)
    calm = [median(values[max(0, at - 1) : at + 2]) for at in range(len(values))]  # without what was disturbed once
    places = range(LEAST, len(values) - LEAST + 1)
    if not places:
        return
    at = max(places, key=lambda place: abs(fmean(calm[place:]) - fmean(calm[:place])) / _error(calm, place))
    # of a side with two values each of them counts
    levels = [list(side) if len(side) <= LEAST else [median(side)] for side in (values[:at], values[at:])]
    step = min(abs(first - second) for first in levels[0] for second in levels[1])
    if step <= least or step <= sigmas * noise * _error(values, at):
        return
    yield from changes(values[:at], least, sigmas, begin)
    yield begin + at
    yield from changes(values[at:], least, sigmas, begin + at)


def _error(values: Sequence[float], at: int) -> float:
    """How far the means of both sides lie apart by chance, in deviations of one value."""
    return math.sqrt(1 / at + 1 / (len(values) - at))
