"""Settings that contradict the machine: a platform that the PCI ids exclude, a limit far from the platform's own.

One wrong word in a file would fail every node of a cluster, or pass every one. Such a limit is refused, unless its
author says that it is meant: `{value: 70, deliberate: "reason"}`.
"""

from collections.abc import Iterable, Mapping

from nodegate.baseline.baseline_file import BaselineFile
from nodegate.baseline.entry import Entry
from nodegate.baseline.platform import Platform
from nodegate.errors import UsageError

_APART = 3.0  # a good limit of a site is nearer to that of the platform
_COUNTED = frozenset(("GPUs", "links", "switches", "lanes", "ports", "generation"))  # units of what a board has
_OF_THE_BOARD = frozenset(("gpu.memory_min_gib",))  # quantities that a board has by its make
_SAME_BOARD = 1.1
HINT = 'if it is meant, write {value: .., deliberate: "reason"}'


def far_off(key: str, value: object, own: Entry | None) -> str:
    """In words, how a limit contradicts that of its platform; empty where it does not.

    Args:
        key: the limit's.
        value: what is written.
        own: what the shipped file of the platform says.
    """
    if own is None:
        return ""
    found = [_far_off(key, value, each) for each in own.variants or (own,)]
    return found[0] if all(found) else ""


def _far_off(key: str, value: object, own: Entry) -> str:
    right = own.value
    numbers = [each for each in (value, right) if isinstance(each, (int, float)) and not isinstance(each, bool)]
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return ""
    most = _SAME_BOARD if key in _OF_THE_BOARD else 1.0 if own.unit in _COUNTED else _APART
    low, high = sorted(numbers)
    if low > 0 and high <= low * most:
        return ""
    return f"{key}: {value} {own.unit}, and {own.file.rpartition('/')[2]} says {right}".replace("  ", " ")


def refuse_far_off(files: Iterable[BaselineFile], own: Mapping[str, Platform]) -> None:
    """Refuse the limits of a site's files, or of a policy, that contradict the shipped file of their platform.

    Raises:
        UsageError: one of them does, without a word that it is meant; with file and line.
    """
    for file in files:
        limits = own[file.platform].limits if file.platform in own else {}
        for entry in file.limits.values():
            for each in entry.variants or (entry,):
                said = far_off(each.key, each.value, limits.get(each.key))
                if said and not each.deliberate:
                    raise UsageError(said, file=each.file, line=each.line or entry.line, hint=HINT)
