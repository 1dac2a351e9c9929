"""Names in the order of people, and many names as one: `gpu[001-008,012]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = re.compile(r"(\d+)", re.ASCII)
_ADDRESS = re.compile(r"(?P<head>\d+\.\d+\.\d+\.)(?P<number>\d+)(?P<tail>)", re.ASCII)


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A sort key that puts gpu2 before gpu10."""
    parts = (part for part in _NUMBER.split(name[:300]) if part)
    return tuple((0, int(part)) if part[0].isdigit() and part.isascii() else (1, part) for part in parts)


def fold(names: Iterable[str]) -> str:
    """The names in Slurm's bracket form, sorted; each once. A name without a number stands for itself."""
    folded: dict[tuple[str, int, str], list[int]] = {}
    words: list[str] = []
    for name in sorted(set(names), key=lambda name: (natural(name), name)):
        match = _split(name)
        if match is None:
            words.append(name)
            continue
        head, number, tail = match["head"], match["number"], match["tail"]
        # Names padded to one width fold together; unpadded numbers (gpu9, gpu10) share width 0.
        width = len(number) if number.startswith("0") or (head, len(number), tail) in folded else 0
        folded.setdefault((head, width, tail), []).append(int(number))
    words.extend(_bracket(key, numbers) for key, numbers in folded.items())
    return ",".join(words)


def _split(name: str) -> re.Match[str] | None:
    """The name around its running number: the last one before the domain, or the last byte of an IPv4 address."""
    address = _ADDRESS.fullmatch(name)
    if address:
        return address
    host, dot, domain = name.partition(".")
    for match in reversed(list(re.finditer(r"\d+", host, re.ASCII))):
        tail = re.escape(host[match.end() :] + dot + domain)
        return re.fullmatch(rf"(?P<head>.{{{match.start()}}})(?P<number>\d{{1,18}})(?P<tail>{tail})", name, re.DOTALL)
    return None


def _bracket(key: tuple[str, int, str], numbers: list[int]) -> str:
    head, width, tail = key
    if len(numbers) == 1:
        return f"{head}{numbers[0]:0{width}d}{tail}"
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    inner = ",".join(
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in spans
    )
    return f"{head}[{inner}]{tail}"
