"""This run against acceptance: the value of each part beside the one it had at its last delivery run.

The run reads those from the fleet's record and keeps them beside it, so that its page can be written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

from markupsafe import Markup

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.files.bounded import read_whole
from nodegate.records.part import Kind
from nodegate.records.store import from_bytes, to_bytes
from nodegate.report.pictures import values
from nodegate.report.pictures.axis import axis, svg
from nodegate.report.stats import MOST_NAMED
from nodegate.text import number, visible
from nodegate.words.catalogue import say

FILE = "acceptance.json"
METRICS = tuple(values.EVERY)
SIZE = 96  # pixels, both ways
_STEP = 2  # pixels: good dots that are nearer are one
_MOST_BYTES = 256 << 20

Delivered = Mapping[str, Mapping[str, Mapping[str, float]]]  # [node][metric][part]: its value at delivery


@dataclass(frozen=True, slots=True)
class Pair:
    """A part's values; `style` is what became of that of now, as of `values.Value`."""

    then: float
    now: float
    where: str
    style: str


@dataclass(frozen=True, slots=True)
class Against:
    """One metric on one platform: its pairs, what lost most first; `without` parts have no value at delivery."""

    platform: str
    quantity: str
    unit: str
    pairs: tuple[Pair, ...]
    without: int

    @property
    def then(self) -> float:
        """The median at delivery."""
        return median(each.then for each in self.pairs)

    @property
    def now(self) -> float:
        """The median of this run."""
        return median(each.now for each in self.pairs)


def keep(folder: Path, delivered: Delivered) -> None:
    """Write what parts had at delivery beside a run; nothing where nothing is known.

    Raises:
        OSError: it cannot be written.
    """
    if delivered:
        write_whole(folder / FILE, to_bytes(delivered))


def kept(folder: Path) -> Delivered:
    """What is written beside a run.

    Raises:
        UsageError: the file is damaged.
    """
    if not (folder / FILE).exists():
        return {}
    try:
        return from_bytes(dict[str, dict[str, dict[str, float]]], read_whole(folder / FILE, _MOST_BYTES), _MOST_BYTES)
    except (OSError, ValueError) as broken:
        raise UsageError("cannot be read as what was measured at delivery", file=str(folder / FILE)) from broken


def against(found: Mapping[tuple[Kind, str, str], values.Values], delivered: Delivered) -> list[Against]:
    """Every metric of a platform of which some part has both values."""
    rows = []
    for (_, platform, metric), each in found.items() if delivered else ():
        pairs = [
            Pair(then, value.value, f"{node} {part}", value.style)
            for node, own in each.of.items()
            for part, value in own.items()
            if (then := delivered.get(node, {}).get(metric, {}).get(part)) is not None and then > 0
        ]
        if pairs:
            pairs.sort(key=lambda pair: pair.now / pair.then)
            without = sum(map(len, each.of.values())) - len(pairs)
            rows.append(Against(platform, each.quantity, each.unit, tuple(pairs), without))
    return rows


def finding_of(row: Against) -> str:
    """What the picture shows, in words."""
    worst = row.pairs[0]
    said = say(
        "{n:,} parts, median change {middle}; most lost at {where}: {now}, {then} at acceptance ({most})",
        n=len(row.pairs),
        middle=_percent(median(each.now / each.then for each in row.pairs)),
        where=worst.where,
        most=_percent(worst.now / worst.then),
        now=number(worst.now, row.unit),
        then=number(worst.then, row.unit),
    )
    return f"{said}; {say('{n:,} more have no value at acceptance', n=row.without)}" if row.without else said


def _percent(share: float) -> str:
    return f"{100 * (share - 1):+.1f} %"


def scatter(row: Against) -> Markup:
    """SVG: from left to right the value at delivery, upwards that of now; the line is where both are equal."""
    both = axis(sorted(value for each in row.pairs for value in (each.then, each.now)), SIZE)
    places: dict[str, set[tuple[int, int]]] = {"good": set(), "open": set(), "bad": set()}
    named = list[str]()
    for each in row.pairs:
        x, y = both.at(each.then), SIZE - both.at(each.now)
        if each.style == "bad" and len(named) < MOST_NAMED:
            said = f"{each.where}: {number(each.now, row.unit)}, {number(each.then, row.unit)}"
            title = f"<title>{escape(visible(said))}</title>"
            named.append(f'<circle class="bad" cx="{x:.4g}" cy="{y:.4g}" r="2.5">{title}</circle>')
        else:
            places[each.style].add((round(x / _STEP) * _STEP, round(y / _STEP) * _STEP))
    drawn = f'<path class="middle" d="M0 {SIZE}L{SIZE} 0"/>'
    for style, held in places.items():
        form = "h2v2h-2z" if style == "bad" else "h0"
        path = "".join(f"M{x} {y}{form}" for x, y in sorted(held))
        drawn += f'<path class="{style}" d="{path}"/>' if path else ""
    return svg(SIZE, SIZE, drawn + "".join(named), escape(visible(finding_of(row))), "dots")
