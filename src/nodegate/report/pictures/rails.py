"""Rails and nodes as a heat map: a rail that is slow on many nodes is a line, a node with slow rails a column."""

from collections import defaultdict
from collections.abc import Iterable
from html import escape
from itertools import groupby

from markupsafe import Markup

from nodegate.inventory.hostlist import natural
from nodegate.report.pictures.axis import svg
from nodegate.report.pictures.values import Value, Values, outcome
from nodegate.text import number, visible
from nodegate.words.catalogue import phrase, say

HEIGHT, WIDEST, LEFT = 12, 14, 70  # pixels
WHOLE = 1000  # pixels: all nodes of a platform
SHADES = (0.98, 0.95, 0.9)  # of the median: the lower end of each shade, the best first; the last has none


def heat_maps(measured: Iterable[Values]) -> list[tuple[str, Markup]]:
    """For each platform with rails what its map shows, in words, and the SVG."""
    return [(said := _finding(each), _map(each, said)) for each in measured]


def _finding(each: Values) -> str:
    every = [value for own in each.of.values() for value in own.values()]
    bad = [(value.value, where) for value, where in each.bad]
    passed = sum(value.style == "good" for value in every)
    platform, quantity = each.platform or say("platform unknown"), phrase(each.quantity)
    said = outcome(len(every), passed, len(bad), bad, each.unit)
    return say("{platform}, {quantity} of rails: {outcome}", platform=platform, quantity=quantity, outcome=said)


def _map(each: Values, said: str) -> Markup:
    """Neighbours of one shade are one line, whose dashes are the cells."""
    rails, nodes = sorted({part for own in each.of.values() for part in own}, key=natural), list(each.of.items())
    wide = max(0.5, min(WIDEST, WHOLE / len(nodes)))
    inner, middle = max(0.4, wide - 1), each.median
    lines, named = defaultdict[str, str](str), list[str]()

    def line(row: int, column: int, cells: int) -> str:
        return f"M{LEFT + column * wide:.5g} {row * HEIGHT + 5.5:g}h{(cells - 1) * wide + inner:.4g}"

    for row, rail in enumerate(rails):
        styles = [_style(own.get(rail), middle) for _, own in nodes]
        for style, alike in groupby(range(len(nodes)), key=styles.__getitem__):
            columns = list(alike)
            if style != "bad":
                lines[style] += line(row, columns[0], len(columns))
                continue
            for column in columns:
                node, own = nodes[column]
                title = escape(f"{visible(node)} {visible(rail)}: {number(own[rail].value, each.unit)} {each.unit}")
                named.append(f'<path class="bad" d="{line(row, column, 1)}"><title>{title}</title></path>')
    names = (f'<text x="0" y="{at * HEIGHT + 10}">{escape(visible(rail))}</text>' for at, rail in enumerate(rails))
    shapes = (f'<path class="{style}" d="{drawn}"/>' for style, drawn in sorted(lines.items()) if style)
    dashed = f'<g stroke-dasharray="{inner:.3g} {wide - inner:.3g}">{"".join((*shapes, *named))}</g>'
    return svg(LEFT + len(nodes) * wide, HEIGHT * len(rails), "".join(names) + dashed, escape(visible(said)), "heat")


def _style(value: Value | None, middle: float) -> str:
    """The class of a cell: how far below the median what passed is; what was held to nothing has no shade."""
    if value is None or value.style != "good":
        return value.style if value else ""
    return f"heat{next((at for at, least in enumerate(SHADES) if value.value >= least * middle), len(SHADES))}"
