"""Two baseline files compared, key by key; values for different conditions are not compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodegate.baseline.baseline_file import BaselineFile
from nodegate.baseline.entry import Entry, is_plain_number
from nodegate.baseline.parameters import shown as conditions_shown
from nodegate.numbers.comparison import number, shown


@dataclass(frozen=True)
class Line:
    """One difference. `refused`: the two cannot be compared, and why."""

    key: str
    said: str
    refused: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.said}"


def diff(one: BaselineFile, other: BaselineFile) -> list[Line]:
    """The differences of two files; empty if they are equal. `one` is on the left of each line."""
    found = []
    if one.platform != other.platform:
        found.append(Line("platform", f"{one.platform} -> {other.platform}"))
    for key in sorted(one.limits.keys() | other.limits.keys()):
        left, right = one.limits.get(key), other.limits.get(key)
        if left is None or right is None:
            held, file = (right, other.file) if right else (left, one.file)
            found.append(Line(key, f"only in {file} ({_value(held)})" if held else ""))
        else:
            found += _of_key(key, left, right)
    return found


def _of_key(key: str, left: Entry, right: Entry) -> Iterator[Line]:
    ours, theirs = _by_parameters(left), _by_parameters(right)
    common = ours.keys() & theirs.keys()
    for conditions in ours:
        if conditions in common:
            yield from _same_conditions(key, ours[conditions], theirs[conditions])
    lonely = [each for conditions, each in ours.items() if conditions not in common]
    others = [each for conditions, each in theirs.items() if conditions not in common]
    if lonely and others:
        yield Line(key, f"not compared: {_difference(lonely[0], others[0])}", refused=True)
    for each in lonely if not others else others if not lonely else ():
        yield Line(key, f"only in {each.file} for {_conditions(each)} ({_value(each)})")


def _by_parameters(entry: Entry) -> dict[frozenset[tuple[str, str]], Entry]:
    several = entry.variants or (entry,)
    return {frozenset((name, str(value)) for name, value in each.parameters.items()): each for each in several}


def _same_conditions(key: str, left: Entry, right: Entry) -> Iterator[Line]:
    where = f" for {_conditions(left)}" if left.parameters else ""
    if left.unit != right.unit:
        units = f"in {left.unit or 'no unit'} and in {right.unit or 'no unit'}"
        yield Line(key, f"not compared{where}: {units}", refused=True)
    elif left.value != right.value:
        yield Line(key, f"{_value(left)} -> {_value(right)}{_change(left.value, right.value)}{where}")
    for word in ("direction", "tolerance", "floor", "peak", "spread", "looks"):
        before, after = getattr(left, word), getattr(right, word)
        if before != after:
            yield Line(key, f"{word} {_word(before)} -> {_word(after)}{where}")


def _difference(left: Entry, right: Entry) -> str:
    """The conditions that are not the same: "nccl 2.21.5 and 2.27.3"."""
    ours, theirs = dict(left.parameters), dict(right.parameters)
    names = [name for name in {**ours, **theirs} if str(ours.get(name)) != str(theirs.get(name))]
    return ", ".join(f"{name} {_held(ours, name)} and {_held(theirs, name)}" for name in names)


def _held(parameters: Mapping[str, object], name: str) -> str:
    return str(parameters[name]) if name in parameters else "any"


def _conditions(entry: Entry) -> str:
    return conditions_shown(entry.parameters) or "all conditions"


def _value(entry: Entry) -> str:
    return shown(entry.value, entry.unit)


def _change(before: object, after: object) -> str:
    if not is_plain_number(before) or not is_plain_number(after) or not before:
        return ""
    return f" ({100 * (after - before) / before:+.1f} %)"


def _word(value: object) -> str:
    return "none" if value is None or value == "" else number(value)
