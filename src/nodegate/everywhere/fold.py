"""What nodes answered, equal answers as one group."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.inventory.hostlist import fold, natural
from nodegate.node import Node
from nodegate.text import counted, visible
from nodegate.transport.session import Output

RULE = "-" * 15
OUT, ERR = "  ", "! "  # before each line of a node: none of them can look like one of ours
ENDED, TIMED_OUT, NOT_REACHED = "ended", "timed out", "not reached"
_MOST_LINE = 1 << 27


@dataclass(frozen=True)
class Answer:
    """What a node answered. `how` is `ENDED`, `TIMED_OUT`, `NOT_REACHED` or a kind of `Unreachable`.

    `is_cut`: it printed more than what is kept of each of its two streams.
    """

    how: str
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    is_cut: bool = False
    reason: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether the command began on the node."""
        return self.how in (ENDED, TIMED_OUT)

    @property
    def in_short(self) -> str:
        """How it ended: "exit 0", "timed out", "refused"."""
        return f"exit {self.exit_code}" if self.how == ENDED else self.how


Group = tuple[tuple[str, ...], Answer]  # the nodes that answered the same, in the order of their names


def answer_of(node: Node, given: Output | CannotMeasure, limit_s: float) -> Answer:
    """A node's answer. Its name and address are taken out of a reason, so that equal ones are one group."""
    if isinstance(given, CannotMeasure):
        how, reason = given.kind if isinstance(given, Unreachable) else NOT_REACHED, f"{given.bare} - {given.next_step}"
        for name in sorted({node.name, node.address}, key=len, reverse=True):
            reason = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", "NODE", reason)
        return Answer(how, reason=reason)
    late = given.timed_out or given.exit_code is None
    reasons = [f"not over after {limit_s:g} s, it was ended"] if late else []
    reasons += [f"could not be ended: {name}" for name in sorted({each.partition(" ")[2] for each in given.stuck})]
    out, err = (raw.decode("utf-8", "backslashreplace") for raw in (given.stdout, given.stderr))
    return Answer(TIMED_OUT if late else ENDED, given.exit_code, out, err, given.truncated, "; ".join(reasons))


def groups(answers: Iterable[tuple[str, Answer]]) -> list[Group]:
    """Equal answers together, the biggest group first."""
    found: dict[Answer, list[str]] = {}
    for name, answer in answers:
        found.setdefault(answer, []).append(name)
    alike = [(tuple(sorted(names, key=natural)), answer) for answer, names in found.items()]
    return sorted(alike, key=lambda group: (-len(group[0]), natural(group[0][0])))


def lines(found: Sequence[Group], kib: int) -> Iterator[str]:
    """The groups for people: a head between two rules, the output below it; last how many ended how."""
    counts: Counter[str] = Counter()
    for nodes, answer in found:
        counts[answer.in_short] += len(nodes)
        said = f"{answer.in_short}: {answer.reason}" if answer.reason else answer.in_short
        yield from (RULE, visible(f"{fold(nodes)} ({len(nodes)}): {' '.join(said.split())}", most=_MOST_LINE), RULE)
        for text, mark in ((answer.stdout, OUT), (answer.stderr, ERR)):
            shown = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else ()
            yield from (mark + visible(line, most=_MOST_LINE) for line in shown)
        if answer.is_cut:
            yield f"[cut: more than {kib} KiB; only the first are kept]"
        elif answer.is_reached and not answer.stdout and not answer.stderr:
            yield "[no output]"
    ends = ", ".join(f"{count} {what}" for what, count in counts.most_common())
    yield from ("", f"{counted(sum(counts.values()), 'node')}: {ends}")
