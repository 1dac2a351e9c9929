"""One dot a value: a metric over the fleet, with its limit, its median, and what did not pass named."""

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from markupsafe import Markup

from nodegate.report.pictures.axis import Axis, axis, svg
from nodegate.report.stats import Measurement
from nodegate.text import number, visible
from nodegate.words.catalogue import say

WIDTH, HEIGHT = 300, 54
_STEP = 3  # pixels: a dot and its gap
_LANE = 7  # pixels at the bottom, where what did not pass stands: no good dot hides it
_MOST_HIGH = (HEIGHT - _LANE - 2) // _STEP  # dots; where more stand on one place, all are drawn as bars
_NAMED = 4


def finding(entry: Measurement) -> str:
    """What the picture shows, in words: "2 of 104 did not pass: hgx02 GPU 2 (653), hgx08 GPU 4 (193)"."""
    total = len(entry.values)
    if entry.beyond:
        shown = dict[str, float]()  # of a part that was measured twice the worse
        for value, where in entry.named:
            if len(shown) < _NAMED:
                shown.setdefault(where, value)
        places = [f"{where} ({number(value, entry.unit)})" for where, value in shown.items()]
        if left := entry.beyond - sum(where in shown for _, where in entry.named):
            places.append(say("{n:,} more", n=left))
        return say("{n:,} of {total:,} did not pass: {places}", n=entry.beyond, total=total, places=", ".join(places))
    if entry.limit is None:
        return say("{total:,} values without a limit", total=total)
    return say("{n:,} of {total:,} passed", n=entry.passed, total=total)


def dots(entry: Measurement) -> Markup:
    """SVG of all values; those that did not pass stand in a lane of their own, each with its name."""
    along = axis(entry.values, WIDTH, entry.limit, entry.median)
    bad = Counter(value for value, _ in entry.named)
    drawn = [f'<path class="middle" d="M{along.at(entry.median):.4g} 0V{HEIGHT}"/>']
    if entry.limit is not None and along.holds(entry.limit):
        drawn.append(f'<path class="limit" d="M{along.at(entry.limit):.4g} 0V{HEIGHT}"/>')
    drawn.append(_good(_without(entry.values, bad), along))
    drawn += [_bad(value, where, entry.unit, along) for value, where in entry.named]
    return svg(WIDTH, HEIGHT, "".join(drawn), escape(visible(finding(entry))), "dots")


def _without(values: Iterable[float], bad: Counter[float]) -> Iterator[float]:
    left = Counter(bad)
    for value in values:
        if left[value]:
            left[value] -= 1
        else:
            yield value


def _good(values: Iterable[float], along: Axis) -> str:
    columns = Counter(min(WIDTH // _STEP - 1, int(along.at(value) / _STEP)) for value in values)
    most, floor = max(columns.values(), default=0), HEIGHT - _LANE
    if most <= _MOST_HIGH:
        places = ((at, level) for at, count in sorted(columns.items()) for level in range(count))
        path = "".join(f"M{at * _STEP + 1.5:g} {floor - 1.5 - level * _STEP:g}h0" for at, level in places)
        return f'<path class="good" d="{path}"/>'
    bars = "".join(
        f"M{at * _STEP} {floor}v-{max(1.5, (floor - 1) * count / most):.3g}h{_STEP - 1}V{floor}z"
        for at, count in sorted(columns.items())
    )
    return f'<path class="bars" d="{bars}"/>'


def _bad(value: float, where: str, unit: str, along: Axis) -> str:
    """A ring with its name; of a value beyond the axis a triangle at its end."""
    x, y = along.at(value), HEIGHT - _LANE / 2
    said = f"<title>{escape(visible(where))}: {number(value, unit)}</title>"
    if along.holds(value):
        return f'<circle class="bad" cx="{x:.4g}" cy="{y:g}" r="2.5">{said}</circle>'
    tip, back = (0, 6) if value < along.low else (WIDTH, WIDTH - 6)
    return f'<path class="bad" d="M{tip} {y:g}L{back} {y - 3:g}V{y + 3:g}z">{said}</path>'
