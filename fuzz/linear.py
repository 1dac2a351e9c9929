"""How the time of each reader grows with its input: `python -m fuzz.linear` tries every shape of every target."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuzz.growth import MOST_GROWTH, QUICK_S, TIMES, cpu_s, growth
from fuzz.table import every_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.target import Target

_FILLERS = (b" ", b"a", b"0", b":", b"[", b"(", b",", b"/", b"\t", b"\r", b"\0", b"\xff", b"\xc3\xa9", b"=", b"<")


@dataclass(frozen=True)
class Shape:
    """Inputs of any length that look alike."""

    name: str
    make: Callable[[int], bytes]


def shapes(target: Target, most: int = 1000) -> Iterator[Shape]:
    """Single long lines that nearly fit what the target reads, and its seeds again and again."""
    made: dict[str, Shape] = {}
    for shape in _shapes(target):
        made.setdefault(shape.name, shape)
    several = list(made.values())
    step = max(1, len(several) // most)
    yield from several[::step][:most]


def _shapes(target: Target) -> Iterator[Shape]:
    seeds = [seed for seed in dict.fromkeys(target.seeds()) if seed]
    for seed in seeds:
        yield _repeated(seed + b"\n", "the seed again and again")
    for filler in _FILLERS:
        yield _repeated(filler, "one line of")
    if target.form == "json":
        for seed in seeds[:20]:
            yield from _in_json(seed)
    for line in sorted({line.strip() for seed in seeds for line in seed.split(b"\n")} - {b""}, key=len)[-400:]:
        for part in (1, 2, 3):
            yield _repeated(line[: max(2, len(line) * part // 3 - (part == 3))], "one line of")
        for filler in _FILLERS[:8]:
            yield _begun(line[: len(line) // 2], filler)


def _repeated(piece: bytes, how: str) -> Shape:
    return Shape(f"{how} {piece[:60]!r}", lambda size: (piece * (size // len(piece) + 1))[:size])


def _begun(start: bytes, filler: bytes) -> Shape:
    name = f"{start[-40:]!r} and then {filler!r}"
    return Shape(name, lambda size: start + filler * (max(0, size - len(start)) // len(filler)))


def _in_json(seed: bytes) -> Iterator[Shape]:
    """The document with one text made long, and with one list or object made long."""
    try:
        document = json.loads(seed)
    except ValueError:
        return
    for key, holder, value in _values(document):
        name = f"{key!r} of {seed[:30]!r}"
        if isinstance(value, str):
            yield _long(document, holder, key, f"the text {name}", lambda size: "a0 :" * (size // 4))
            yield _long(document, holder, key, f"the lines {name}", _many_lines(value))
        elif isinstance(value, list) and value:
            yield _long(document, holder, key, f"the list {name}", _many_items(value[0]))
        elif isinstance(value, dict) and value:
            yield _long(document, holder, key, f"the object {name}", _many_keys(value))


def _many_lines(line: str) -> Callable[[int], object]:
    return lambda size: (line + "\n") * (size // (len(line) + 2))


def _many_items(item: object) -> Callable[[int], object]:
    one = len(json.dumps(item)) + 2
    return lambda size: [item] * (size // one)


def _many_keys(value: dict[str, object]) -> Callable[[int], object]:
    first = next(iter(value.values()))
    one = len(json.dumps(first)) + 14
    return lambda size: {**value, **{f"key{number}": first for number in range(size // one)}}


def _long(document: object, holder: object, key: object, name: str, make: Callable[[int], object]) -> Shape:
    def made(size: int) -> bytes:
        old = holder[key]  # type: ignore[index]
        try:
            holder[key] = make(size)  # type: ignore[index]
            return json.dumps(document).encode()
        finally:
            holder[key] = old  # type: ignore[index]

    return Shape(name, made)


def _values(value: object) -> Iterator[tuple[object, object, object]]:
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, child in children:
        yield key, value, child
        yield from _values(child)


def main() -> int:
    """The command; 1 when something grows too fast."""
    command = argparse.ArgumentParser(prog="python -m fuzz.linear", description=__doc__)
    command.add_argument("--target", action="append", help="a name, or a part of names; may be given again")
    command.add_argument("--kilobytes", type=int, default=1000)
    command.add_argument("--shapes", type=int, default=1000, help="at most so many of each target")
    asked = command.parse_args()
    found, size = 0, asked.kilobytes * 1000
    for name, target in every_target().items():
        if asked.target and not any(word in name for word in asked.target):
            continue
        count, worst, slowest = 0, 0.0, 0.0
        for shape in shapes(target, asked.shapes):
            count += 1
            took = cpu_s(target.read, shape.make(size))
            slowest = max(slowest, took)
            ratio = growth(target.read, shape.make, size) if took > QUICK_S else TIMES
            worst = max(worst, ratio)
            if ratio > MOST_GROWTH:
                found += 1
                sys.stdout.write(f"TOO FAST {name}: {ratio:.1f} times, {took:.2f} s: {shape.name}\n")
        said = f"{count} shapes, at most {worst:.1f} times, {slowest:.2f} s for {asked.kilobytes} kB"
        sys.stdout.write(f"{name}: {said}\n")
        sys.stdout.flush()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
