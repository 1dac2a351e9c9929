"""One dot a value: a metric over the fleet, with its limit, its median, and what did not pass named."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from operator import sub

from markupsafe import Markup

from nodegate.report.pictures.axis import Axis, axis, svg
from nodegate.report.pictures.values import outcome
from nodegate.report.stats import Measurement
from nodegate.text import number, visible

WIDTH, HEIGHT = 300, 54
_STEP = 3  # pixels: a dot and its gap
_LANE = 7  # pixels at the bottom, where what did not pass stands: no good dot hides it
_MOST_HIGH = (HEIGHT - _LANE - 2) // _STEP  # dots; where more stand on one place, all are drawn as bars


def finding(entry: Measurement) -> str:
    """What the picture shows, in words."""
    passed = 0 if entry.limit is None else entry.passed
    return outcome(len(entry.values), passed, len(entry.beyond), entry.named, entry.unit)


def dots(entry: Measurement) -> Markup:
    """SVG of all values; those that did not pass stand in a lane of their own, the worst of them with their names."""
    along = axis(entry.values, WIDTH, entry.limit, entry.median)
    others = {at: n for at, n in enumerate(map(sub, _columns(entry.values, along), _columns(entry.beyond, along))) if n}
    unnamed = Counter(entry.beyond) - Counter(value for value, _ in entry.named)
    drawn = [f'<path class="middle" d="M{along.at(entry.median):.4g} 0V{HEIGHT}"/>']
    if entry.limit is not None and along.holds(entry.limit):
        drawn.append(f'<path class="limit" d="M{along.at(entry.limit):.4g} 0V{HEIGHT}"/>')
    if others:
        drawn.append(_others(others, is_good=entry.passed == sum(others.values())))
    places = {int(along.at(value)) for value in unnamed}
    drawn += [f'<path class="bad" d="M{at} {HEIGHT - _LANE}h2v{_LANE}h-2z"/>' for at in sorted(places)]
    drawn += [_bad(value, where, entry.unit, along) for value, where in entry.named]
    return svg(WIDTH, HEIGHT, "".join(drawn), escape(visible(finding(entry))), "dots")


def _columns(held: Sequence[float], along: Axis) -> list[int]:
    """How many of sorted values stand in each column."""
    wide = (along.high - along.low) * _STEP / WIDTH
    ends = (bisect_left(held, along.low + wide * at) for at in range(1, WIDTH // _STEP))
    return [end - begin for begin, end in pairwise((0, *ends, len(held)))]


def _others(columns: Mapping[int, int], *, is_good: bool) -> str:
    """Dots, or bars; in the colour of what passed only where all of them did."""
    most, floor = max(columns.values()), HEIGHT - _LANE
    if most <= _MOST_HIGH:
        places = ((at, level) for at, count in sorted(columns.items()) for level in range(count))
        path = "".join(f"M{at * _STEP + 1.5:g} {floor - 1.5 - level * _STEP:g}h0" for at, level in places)
        return f'<path class="{"good" if is_good else "open"}" d="{path}"/>'
    bars = "".join(
        f"M{at * _STEP + 1} {floor}v-{max(1.5, (floor - 1) * count / most):.3g}"
        for at, count in sorted(columns.items())
    )
    return f'<path class="{"bars passed" if is_good else "bars"}" d="{bars}"/>'


def _bad(value: float, where: str, unit: str, along: Axis) -> str:
    """A ring with its name; of a value beyond the axis a triangle at its end."""
    x, y = along.at(value), HEIGHT - _LANE / 2
    said = f"<title>{escape(visible(where))}: {number(value, unit)}</title>"
    if along.holds(value):
        return f'<circle class="bad" cx="{x:.4g}" cy="{y:g}" r="2.5">{said}</circle>'
    tip, back = (0, 6) if value < along.low else (WIDTH, WIDTH - 6)
    return f'<path class="bad" d="M{tip} {y:g}L{back} {y - 3:g}V{y + 3:g}z">{said}</path>'
