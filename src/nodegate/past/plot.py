"""`nodegate history --plot`: numbers over time as one SVG file; a ring is a run in which the node had a fault."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.metric_names import words
from nodegate.numbers.comparison import shown
from nodegate.past.questions import Told
from nodegate.text import day_of

WIDTH, HEIGHT, LEFT, TITLE = 900, 130, 90, 18
_BAD = ' class="bad"'
_STYLE = (
    "text{font:11px sans-serif;fill:#333}polyline{fill:none;stroke:#2563a8}circle{fill:#2563a8}"
    "circle.bad{fill:#fff;stroke:#c62828}path{stroke:#bbb;fill:none}"
)


def write_plot(file: Path, told: Sequence[tuple[str, Sequence[Told]]]) -> None:
    """Write what each of these nodes or parts measured, one diagram a quantity, the time from left to right.

    Raises:
        UsageError: nothing was measured twice, or the file cannot be written.
    """
    found = [_diagram(name, each) for name, own in told for each in own if len(each.values) > 1]
    if not found:
        raise UsageError("nothing was measured in two runs: there is nothing to plot", file=str(file))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT * len(found)}" width="{WIDTH}" xmlns="http://www.w3.org/2000/svg"'
    rows = "".join(f'<g transform="translate(0 {HEIGHT * at})">{each}</g>' for at, each in enumerate(found))
    try:
        write_whole(file, f"<svg {size}><style>{_STYLE}</style>{rows}</svg>\n".encode("utf-8", "backslashreplace"))
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(file)) from broken


def _diagram(name: str, told: Told) -> str:
    low, high = min(told.values), max(told.values)
    room = (high - low) * 0.1 or abs(high) * 0.02 or 1.0
    low, high = low - room, high + room
    since, until = told.at_s[0], max(told.at_s[-1], told.at_s[0] + 1.0)
    bottom = HEIGHT - 2 * TITLE

    def place(at: float, value: float) -> tuple[str, str]:
        x = LEFT + (WIDTH - LEFT - 10) * (at - since) / (until - since)
        return f"{x:.1f}", f"{TITLE + bottom * (high - value) / (high - low):.1f}"

    points = [place(at, value) for at, value in zip(told.at_s, told.values, strict=True)]
    marks = "".join(
        f'<circle cx="{x}" cy="{y}" r="{2 if good else 3}"{"" if good else _BAD}/>'
        for (x, y), good in zip(points, told.sound, strict=True)
    )
    under = ", ".join(f"{key} {value}".strip() for key, value in told.under.items())
    title = " ".join(each for each in (name, told.device, words(told.metric), f"({under})" if under else "") if each)
    line = " ".join(f"{x},{y}" for x, y in points)
    axis = f'<path d="M{LEFT} {TITLE}V{TITLE + bottom}H{WIDTH - 10}"/>'
    texts = (
        (LEFT, TITLE - 6, "start", title),
        (LEFT - 6, TITLE + 8, "end", shown(high, told.unit)),
        (LEFT - 6, TITLE + bottom, "end", shown(low, told.unit)),
        (LEFT, TITLE + bottom + 13, "start", day_of(told.at_s[0])),
        (WIDTH - 10, TITLE + bottom + 13, "end", day_of(told.at_s[-1])),
    )
    return f'{axis}<polyline points="{line}"/>{marks}' + "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>' for x, y, anchor, text in texts
    )
