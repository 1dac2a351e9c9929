"""Rails and nodes as a heat map: a rail that is slow on many nodes is a line, a node with slow rails a column."""

from collections import defaultdict
from collections.abc import Iterable
from html import escape

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
    every = list(each)
    bad = [(value.value, where) for value, where in every if value.style == "bad"]
    passed = sum(value.style == "good" for value, _ in every)
    platform, quantity = each.platform or say("platform unknown"), phrase(each.quantity)
    said = outcome(len(every), passed, len(bad), bad, each.unit)
    return say("{platform}, {quantity} of rails: {outcome}", platform=platform, quantity=quantity, outcome=said)


def _map(each: Values, said: str) -> Markup:
    rails = sorted({part for own in each.of.values() for part in own}, key=natural)
    wide = max(0.5, min(WIDEST, WHOLE / len(each.of)))
    inner, middle = max(0.4, wide - 1), each.median
    paths, named = defaultdict[str, str](str), list[str]()
    for column, (node, own) in enumerate(each.of.items()):
        for part, value in own.items():
            x, y = LEFT + column * wide, rails.index(part) * HEIGHT
            cell = f"M{x:.5g} {y}h{inner:.3g}v{HEIGHT - 1}h-{inner:.3g}z"
            if value.style == "bad":
                title = escape(f"{visible(node)} {visible(part)}: {number(value.value, each.unit)} {each.unit}")
                named.append(f'<path class="bad" d="{cell}"><title>{title}</title></path>')
            else:
                paths[_shade(value, middle)] += cell
    names = (f'<text x="0" y="{at * HEIGHT + 10}">{escape(visible(rail))}</text>' for at, rail in enumerate(rails))
    shapes = (f'<path class="{style}" d="{path}"/>' for style, path in sorted(paths.items()))
    drawn = "".join((*names, *shapes, *named))
    return svg(LEFT + len(each.of) * wide, HEIGHT * len(rails), drawn, escape(visible(said)), "heat")


def _shade(value: Value, middle: float) -> str:
    """The class of a cell: how far below the median what passed is; what was held to nothing has no shade."""
    shade = next((at for at, least in enumerate(SHADES) if value.value >= least * middle), len(SHADES))
    return f"heat{shade}" if value.style == "good" else "open"
