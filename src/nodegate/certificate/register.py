"""The lines of a certificate that a program reads back: run, manifest, result, and each node with its serial numbers.

Each is in square brackets, the same in every language, and is compared without its spaces: `[1/16 hgx01 |
accepted | chassis 7XK0001 | GPU 0 1650001000000]`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodegate.certificate.rounds import Round, newest
from nodegate.inventory.hostlist import natural
from nodegate.records.verdict import GOOD
from nodegate.text import visible

_SIGNS = str.maketrans({"[": "(", "]": ")", "|": "/"})
_LINE = re.compile(r"\[(\d{1,7})/(\d{1,7})([^\[\]]{1,20000})\]")
_FIELD = re.compile(r"\[(run|manifest|result):([^\[\]]{0,2000})\]")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A node of the register as it is printed, without its number: name, verdict, the round if not this one, parts."""

    node: str
    verdict: str
    is_accepted: bool
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """What stands between the brackets, after the number."""
        return " | ".join((self.node, self.verdict, *self.cells))


def plain(text: str) -> str:
    """A text without the signs that separate entries."""
    return visible(" ".join(text.split())).translate(_SIGNS)


def register(rounds: Sequence[Round]) -> list[Entry]:
    """Every node as its newest round has it, accepted ones first."""
    found = []
    for at, node in newest(rounds):
        cells = [f"round {at}"] if at < len(rounds) else []
        cells += [f"{plain(slot)} {plain(serial)}" for slot, serial in node.serials.items()]
        found.append(Entry(plain(node.node), node.verdict.value, node.verdict in GOOD, tuple(cells)))
    return sorted(found, key=lambda each: (not each.is_accepted, natural(each.node[:200])))


@dataclass(frozen=True)
class Printed:
    """What was read from a paper, without spaces: its fields, its entries, and how many it says that it has."""

    fields: Mapping[str, str]
    entries: tuple[str, ...]
    count: int
    twice: tuple[str, ...] = ()


def squeezed(text: str) -> str:
    """A text without its spaces: a printed line may be broken anywhere."""
    return _SPACE.sub("", text)


def read(text: str) -> Printed:
    """What a paper's text has in brackets."""
    whole = squeezed(text)
    fields: dict[str, str] = {}
    twice = []
    for name, value in _FIELD.findall(whole):
        if fields.setdefault(name, value) != value:
            twice.append(name)
    numbered = {int(place): entry for place, _, entry in _LINE.findall(whole)}
    counts = {int(count) for _, count, _ in _LINE.findall(whole)}
    entries = tuple(entry for _, entry in sorted(numbered.items()))
    return Printed(fields, entries, max(counts, default=0), tuple(twice))


def numbered(entries: Iterable[Entry]) -> list[tuple[str, Entry]]:
    """Each entry with its number: "1/16"."""
    listed = list(entries)
    return [(f"{at}/{len(listed)}", each) for at, each in enumerate(listed, 1)]
