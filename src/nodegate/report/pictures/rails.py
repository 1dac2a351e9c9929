"""Rails and nodes as a heat map: a rail that is slow on many nodes is a line, a node with slow rails a column."""

from collections.abc import Iterable
from html import escape

from markupsafe import Markup

from nodegate.inventory.hostlist import natural
from nodegate.records.part import Kind
from nodegate.records.run import NodeReport
from nodegate.report.pictures.axis import svg
from nodegate.report.pictures.values import Values, values
from nodegate.text import number, visible
from nodegate.words.catalogue import phrase, say

METRICS = ("rdma.write_gbps", "rdma.read_gbps", "rdma.gpu_write_gbps")
HEIGHT, WIDEST, LEFT = 12, 14, 70  # pixels
WHOLE = 1000  # pixels: all nodes of a platform
SHADES = (0.98, 0.95, 0.9, 0.0)  # of the median: the lower end of each shade, the best first
_NAMED = 4


def heat_maps(nodes: Iterable[NodeReport]) -> list[tuple[str, Markup]]:
    """For each platform with rails what its map shows, in words, and the SVG."""
    maps = [each for kind in (Kind.NIC, Kind.PORT) for each in values(nodes, kind, METRICS)]
    return [(_finding(each), _map(each)) for each in maps]


def _finding(each: Values) -> str:
    bad = [f"{where} ({number(value, each.unit)})" for value, where, good in each if not good]
    places = ", ".join(bad[:_NAMED])
    total = sum(map(len, each.of.values()))
    platform, quantity = each.platform or say("platform unknown"), phrase(each.quantity)
    about = say("{platform}: {quantity} of {total:,} rails", platform=platform, quantity=quantity, total=total)
    if not bad:
        return say("{about}; all passed", about=about)
    more = say(" and {n:,} more", n=len(bad) - _NAMED) if len(bad) > _NAMED else ""
    return say("{about}; {n:,} did not pass: {places}{more}", about=about, n=len(bad), places=places, more=more)


def _map(each: Values) -> Markup:
    rails = sorted({part for own in each.of.values() for part in own}, key=natural)
    wide = max(0.5, min(WIDEST, WHOLE / len(each.of)))
    middle, paths, named = each.median, dict[str, str](), list[str]()
    for column, (node, own) in enumerate(each.of.items()):
        for part, (good, value) in own.items():
            x, y = LEFT + column * wide, rails.index(part) * HEIGHT
            cell = f"M{x:.5g} {y}h{max(0.4, wide - 1):.3g}v{HEIGHT - 1}h-{max(0.4, wide - 1):.3g}z"
            if good:
                shade = next((place for place, least in enumerate(SHADES) if value >= least * middle), len(SHADES) - 1)
                paths[f"heat{shade}"] = paths.get(f"heat{shade}", "") + cell
            else:
                said = f"{visible(node)} {visible(part)}: {number(value, each.unit)} {each.unit}"
                named.append(f'<path class="bad" d="{cell}"><title>{escape(said)}</title></path>')
    names = "".join(
        f'<text x="0" y="{place * HEIGHT + 10}">{escape(visible(rail))}</text>' for place, rail in enumerate(rails)
    )
    shapes = "".join(f'<path class="{shade}" d="{path}"/>' for shade, path in sorted(paths.items()))
    return svg(
        LEFT + len(each.of) * wide,
        HEIGHT * len(rails),
        names + shapes + "".join(named),
        escape(visible(_finding(each))),
        "heat",
    )
