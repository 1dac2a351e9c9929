"""Baseline entries as the text of a file, so that it reads back unchanged: every text quoted, every number plain."""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby

from nodegate.baseline.entry import Entry
from nodegate.text import visible


def baseline_text(platform: str, entries: Sequence[Entry], remarks: Iterable[str]) -> str:
    """The file: the remarks as comments, then one entry per key; several entries of one key become its variants."""
    lines = [f"# {_plain(remark)}" for remark in remarks]
    lines += [f"platform: {_quoted(platform)}", "limits:"]
    for key, several in groupby(sorted(entries, key=lambda entry: entry.key), key=lambda entry: entry.key):
        lines += _of_key(key, list(several))
    return "\n".join(lines) + "\n"


def _of_key(key: str, entries: Sequence[Entry]) -> list[str]:
    first = entries[0]
    shared = [f"  {key}:", f"    unit: {_quoted(first.unit)}", f"    direction: {first.direction}"]
    if first.peak is not None:
        shared.append(f"    peak: {_number(first.peak)}")
    if len(entries) == 1:
        return shared + _own(first, "    ")
    listed = [_own(entry, "        ") for entry in entries]
    return [*shared, "    variants:", *(line for own in listed for line in ("      - " + own[0].lstrip(), *own[1:]))]


def _own(entry: Entry, indent: str) -> list[str]:
    lines = [
        f"value: {_number(entry.value)}",
        f"tolerance: {_number(entry.tolerance)}",
        f"source: {_quoted(entry.source)}",
    ]
    if entry.best_value is not None:
        lines.append(f"best_value: {_number(entry.best_value)}")
    if entry.looks:
        lines += [f"spread: {_number(entry.spread)}", f"looks: {entry.looks}"]
    if entry.parameters:
        lines.append("parameters:")
        lines += [f"  {_quoted(name)}: {_quoted(str(value))}" for name, value in entry.parameters.items()]
    if entry.note:
        lines.append(f"note: {_quoted(entry.note)}")
    return [indent + line for line in lines]


def _quoted(text: str) -> str:
    """A double-quoted YAML text: JSON's quoting is a part of it."""
    return json.dumps(_plain(text), ensure_ascii=False)


def _plain(text: str) -> str:
    return visible(" ".join(text.split()))


def _number(value: object) -> str:
    """Without exponent, as the strict reader requires."""
    if isinstance(value, float) and value != int(value):
        return f"{value:.12f}".rstrip("0")
    return f"{value:.0f}" if isinstance(value, float) else str(value)
