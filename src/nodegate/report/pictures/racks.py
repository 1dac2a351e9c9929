"""The GPUs of each node as bars, in the rack view: which of them computes less than the platform's median."""

from collections.abc import Iterable, Mapping
from html import escape

from markupsafe import Markup

from nodegate.report.pictures.axis import svg
from nodegate.report.pictures.values import Value, Values
from nodegate.text import number, visible
from nodegate.words.catalogue import phrase, say

HEIGHT, STEP = 16, 4
LOWEST, HIGHEST = 0.8, 1.05  # of the median: the ends of a bar; 5 % less is a fifth of the picture's height
# Of a node of which nothing was measured.
NONE = svg(STEP * 8, HEIGHT, f'<path class="bars line" d="M8 {HEIGHT - 0.5}h16"/>')
_GPU = "GPU "


def gpu_bars(measured: Iterable[Values]) -> tuple[str, Mapping[str, Markup]]:
    """What the bars show, and of each node with such values its SVG; a GPU without a value has a gap."""
    quantities, drawn = list[str](), dict[str, Markup]()
    for each in measured:
        quantities.append(f"{phrase(each.quantity)} ({each.unit})")
        middle = each.median
        for node, own in each.of.items():
            numbers = {part.removeprefix(_GPU): value for part, value in own.items()}
            drawn[node] = _bars(node, {int(at): it for at, it in numbers.items() if at.isdecimal()}, middle, each.unit)
    return ", ".join(dict.fromkeys(quantities)), drawn


def _bars(node: str, own: Mapping[int, Value], middle: float, unit: str) -> Markup:
    paths = {"bars": "", "bad": ""}
    for place, each in sorted(own.items()):
        share = (each.value / middle - LOWEST) / (HIGHEST - LOWEST) if middle else 0.0
        bar = f"M{place * STEP + 2} {HEIGHT}v-{max(1.0, HEIGHT * min(1.0, share)):.3g}"
        paths["bad" if each.style == "bad" else "bars"] += bar
    bad = [f"{_GPU}{place}: {number(each.value, unit)}" for place, each in own.items() if each.style == "bad"]
    named = {"node": node, "bad": ", ".join(bad), "unit": unit, "median": number(middle, unit)}
    said = escape(visible(say("{node}: {bad} {unit}, the platform's median is {median}", **named))) if bad else ""
    shapes = "".join(f'<path class="{style}" d="{path}"/>' for style, path in paths.items() if path)
    title = f"<title>{said}</title>" if said else ""
    return svg(STEP * (max(own, default=0) + 1), HEIGHT, title + shapes, said)
