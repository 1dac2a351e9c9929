"""A cause in one line for people: where, which part, what is the matter, what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodegate.causes.fleet import values
from nodegate.inventory.hostlist import fold
from nodegate.numbers.parts import OF_BATCH
from nodegate.records.cause import NOT_JUDGED, Cause
from nodegate.records.part import Kind, Part
from nodegate.records.run import CheckInfo
from nodegate.text import number, some, with_unit
from nodegate.words.catalogue import is_foreign, known, phrase, say, term

LINE_LENGTH = 100  # a scheduler cuts a reason anyway: the first hundred characters must be enough
_MOST_PARTS = 8
_MOST_QUANTITIES = 3


@dataclass(frozen=True)
class CauseLine:
    """The columns of a cause's line.

    `what` has no part and no action; `more` counts the findings that follow from it or show the same.
    """

    severity: str
    where: str
    part: str
    what: str
    action: str
    more: int

    @property
    def text(self) -> str:
        """Part, what is the matter and what to do, in one sentence."""
        action = f" - {self.action}" if self.action else ""
        more = say(" (+{n} that follow)", n=self.more) if self.more else ""
        return f"{self.part}: {self.what}{more}{action}"


def line(cause: Cause, checks: Mapping[str, CheckInfo] | None = None) -> CauseLine:
    """The line of a cause of one node or of several.

    Of a finding that is English alone, another language has what its check, of `checks`, accepts.
    """
    info = (checks or {}).get(cause.decisive.check)
    where = fold(cause.nodes)
    return CauseLine(
        severity=cause.severity.value,
        where=say("rack {rack}: {nodes}", rack=cause.place, nodes=where) if cause.place else where,
        part=_parts(cause),
        what=_what(cause, info.title if info else ""),
        action=cause.do or cause.action,
        more=len(cause.follows),
    )


def worst_in_short(word: str, causes: Sequence[Cause]) -> str:
    """The worst cause in a hundred characters: the part comes first, since a scheduler may cut the rest."""
    more = say(" (+{n} more)", n=len(causes) - 1) if len(causes) > 1 else ""
    row = line(causes[0])
    room = LINE_LENGTH - len(f"{word}: ") - len(more)
    said = f"{row.part}: {row.what}"
    whole = f"{said} - {row.action}" if row.action else said
    return f"{word}: {whole if len(whole) <= room else shortened(said, room)}{more}"


def _parts(cause: Cause) -> str:
    """The part with its serial number; of several parts their short names, of several nodes one name for all."""
    parts = [part for part in cause.parts if part.kind is cause.part.kind]
    if len(parts) == 1:
        return short_with_serial(parts[0])
    names = list(dict.fromkeys(part.said for part in parts))
    if len(cause.nodes) > 1:
        return names[0] if len(names) == 1 else _kind(cause.part)
    return _together(names)


def short_with_serial(part: Part) -> str:
    """The short name, and the serial number of a part that can be replaced; of a GPU without one its address."""
    serial = (part.of or part).serial
    if serial:
        return f"{part.said} S/N {serial}"
    by_address = part.kind is Kind.GPU and part.pci not in part.said
    return f"{part.said} ({part.pci})" if by_address else part.said


def _together(names: list[str]) -> str:
    """The names of several parts: "GPU 0-7", or one after the other."""
    numbers = [name.removeprefix("GPU ") for name in names]
    if len(names) > 1 and all(number.isdecimal() for number in numbers):
        return f"GPU {fold(numbers).strip('[]')}"
    return some(names, _MOST_PARTS)


def _kind(part: Part) -> str:
    """What sort of part, where several nodes have it with different ones: "a GPU"."""
    names = {
        Kind.GPU: known("a GPU"),
        Kind.NIC: known("a NIC"),
        Kind.PORT: known("a NIC port"),
        Kind.NVLINK: known("an NVLink"),
    }
    return term(names.get(part.kind, f"a {part.kind.value}"))


def _what(cause: Cause, title: str = "") -> str:
    finding = cause.decisive.finding
    if finding.text and finding.code.startswith(OF_BATCH):
        others = dict.fromkeys(
            each.finding.quantity for each in (*cause.same, *cause.follows) if each.finding.code == finding.code
        )
        more = [quantity for quantity in others if quantity != finding.quantity]
        also = some(map(phrase, more), _MOST_QUANTITIES)
        return phrase(finding.text) + (say(", also in {quantities}", quantities=also) if more else "")
    found = values(cause)
    if title and not cause.words and is_foreign(finding.text):
        return say("{finding}, expected: {condition}", finding=cause.message, condition=phrase(title))
    if cause.condition == NOT_JUDGED or len(cause.nodes) == 1 or len(set(found)) <= 1 or not finding.metric:
        return cause.words or cause.message
    span = say("{low} to {high}", low=number(found[0], finding.unit), high=with_unit(found[-1], finding.unit))
    said = f"{phrase(finding.quantity)} {span}"
    return say("{seen}, expected {limit}", seen=said, limit=finding.limit.words()) if finding.limit else said


def shortened(text: str, room: int) -> str:
    """The text cut to this width, at a word if possible."""
    if len(text) <= room:
        return text
    kept = text[: max(0, room - 3)]
    at_word = kept.rpartition(" ")[0]
    return (at_word if len(at_word) > len(kept) * 2 // 3 else kept).rstrip(" ,;(") + "..."
