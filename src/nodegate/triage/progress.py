"""How far the training got: the completed iterations that a log prints, in the frameworks' own forms.

Only a number that grows is progress; a smaller one is a restart. The search is done only on request, because
a log has far more iterations than errors.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from dataclasses import dataclass, field

from nodegate.triage import place
from nodegate.triage.clock import Stamp, Times
from nodegate.triage.place import Place

# (a string that the line contains, the iteration in it)
_FORMS = (
    (b"iteration", re.compile(rb"iteration[ \t]{1,20}([0-9]{1,12}) {0,4}/ {0,20}[0-9]{1,12}")),
    (b"global_step", re.compile(rb"global_step[=:] {0,4}([0-9]{1,12})")),
    (b'"current_steps"', re.compile(rb"\"current_steps\": {0,4}([0-9]{1,12})")),
    (b"steps: ", re.compile(rb"steps: ([0-9]{1,12}) loss: ")),
    (b"/it]", re.compile(rb"([0-9]{1,12})/[0-9]{3,12} \[[0-9:]{4,12}<[^\]\r\n]{1,60}s/it\]")),
    (
        "步".encode(),
        re.compile("(?:第|步骤|步数)(?: |:|：)?([0-9]{1,12}) ?(?:步)?(?: |,|，|:|：).{0,60}(?:损失|loss)".encode()),
    ),
    (b"it/s", re.compile(rb"([0-9]{1,12})/[0-9]{3,12} \[[0-9:]{4,12}<[^\]\r\n]{1,60}it/s[,\]]")),
)
_TRIES = 8  # lines that contain the string but are not iterations, before a form is dropped
_LINE_BYTES = 1000


@dataclass(frozen=True)
class Iteration:
    """A completed iteration. `stamp` is what its line prints, None without a time; `place` who printed it."""

    number: int
    stamp: Stamp | None
    place: Place = field(default_factory=Place)


def last_iteration(chunk: bytes, start: int, end: int, times: Times, *, stern: bool = False) -> Iteration | None:
    """The last iteration that was completed between two places of a chunk."""
    best, best_at = None, -1
    for literal, form in _FORMS:
        at = end
        for _ in range(_TRIES):
            at = chunk.rfind(literal, max(start, best_at + 1), at)
            if at < 0:
                break
            low, high = max(start, at - _LINE_BYTES), min(end, at + _LINE_BYTES)
            first = max(chunk.rfind(b"\n", low, at), chunk.rfind(b"\r", low, at)) + 1
            line = chunk[max(first, low) : high].partition(b"\n")[0]
            if match := form.search(line):
                best, best_at = (match, line), at
                break
    if best is None:
        return None
    match, line = best
    before = line[: match.start()].decode("utf-8", "replace")
    return Iteration(int(match[1]), times.last(before), place.of_line(before, stern=stern))
