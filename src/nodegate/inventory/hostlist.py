"""Slurm hostlists: many names as one, `gpu[001-128,130],login1`, and back."""

import re
from collections.abc import Iterable, Sequence

from nodegate.inventory import ranges

# A longer row of digits is not a node number, and `expand` refuses it.
_NUMBER = re.compile(r"(?<![0-9])([0-9]{1,30})(?![0-9])", re.ASCII)


def expand(text: str) -> list[str]:
    """The names of a hostlist in its order, each once. Commas and white space separate its terms.

    Raises:
        UsageError: a bracket is not closed or not a range, or there are too many names.
    """
    terms = ranges.split_outside_brackets(text, ", \t\r\n")
    names: dict[str, None] = {}
    for term in terms:
        names |= dict.fromkeys(ranges.expand(term))
        ranges.limit(len(names), text)
    return list(names)


def fold(names: Iterable[str]) -> str:
    """The names as one hostlist, sorted, each once: `expand(fold(names))` gives the same names.

    Names that differ in one number fold together. If several numbers differ, the one with most values folds:
    `r1n[1-8],r2n[1-8]`.
    """
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for name in sorted(set(names), key=natural):
        pieces = _NUMBER.split(name)  # text, number, text, number, ..., text
        alike.setdefault(tuple(pieces[::2]), []).append(pieces)
    return ",".join(text for _, text in sorted(term for rows in alike.values() for term in _fold_alike(rows)))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts gpu2 before gpu10."""
    parts = enumerate(_NUMBER.split(name))  # text, number, text, number, ..., text
    return tuple((0, int(part), part) if index % 2 else (1, 0, part) for index, part in parts if part)


def _fold_alike(rows: Sequence[list[str]]) -> list[tuple[tuple[tuple[int, int, str], ...], str]]:
    """The terms for names that differ in their numbers only, each with the sort key of its first name."""
    columns = range(1, len(rows[0]), 2)
    if not columns or len(rows) == 1:
        return [(natural("".join(row)), "".join(row)) for row in rows]
    running = max(columns, key=lambda column: (len({row[column] for row in rows}), column))
    series: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        series.setdefault(("".join(row[:running]), "".join(row[running + 1 :])), []).append(row[running])
    return [
        (natural(head + numbers[0] + tail), head + _bracket(numbers) + tail) for (head, tail), numbers in series.items()
    ]


def _bracket(numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return numbers[0]
    padded = sorted({len(number) for number in numbers if len(number) > 1 and number.startswith("0")}, reverse=True)
    by_width: dict[int, list[str]] = {}
    for number in numbers:
        width = next((width for width in padded if width <= len(number)), 1)
        by_width.setdefault(width, []).append(number)
    return "[" + ",".join(span for width in sorted(by_width) for span in _spans(by_width[width], width)) + "]"


def _spans(numbers: Iterable[str], width: int) -> list[str]:
    """Runs of numbers that follow each other, all padded to one width."""
    spans: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    ends = ((low,) if low == high else (low, high) for low, high in spans)
    return ["-".join(str(each).zfill(width) for each in span) for span in ends]
