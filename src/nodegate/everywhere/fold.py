"""What nodes answered, equal answers as one group."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.inventory.hostlist import fold, natural
from nodegate.text import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nodegate.node import Node
    from nodegate.transport.session import Output

RULE = "-" * 15
OUT, ERR = "  ", "! "  # before each line of a node: none of them can look like one of ours
ENDED, TIMED_OUT, NOT_REACHED = "ended", "timed out", "not reached"
_MOST_LINE = 1 << 21


@dataclass(frozen=True)
class Answer:
    """What a node answered. `how` is `ENDED`, `TIMED_OUT`, or a kind of `Unreachable`, or `NOT_REACHED`.

    `is_cut`: it printed more than what is kept of each of its two streams.
    """

    how: str
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    is_cut: bool = False
    reason: str = ""
    next_step: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether the command began on the node."""
        return self.how in (ENDED, TIMED_OUT)

    @property
    def in_short(self) -> str:
        """How it ended, for the line of counts: "exit 0", "timed out", "refused"."""
        return f"exit {self.exit_code}" if self.how == ENDED else self.how


@dataclass(frozen=True)
class Group:
    """Nodes that answered the same, in the order of their names."""

    nodes: tuple[str, ...]
    answer: Answer


def answer_of(node: Node, given: Output | CannotMeasure, limit_s: float) -> Answer:
    """A node's answer. Its name and address are taken out of a reason, so that equal ones are one group."""
    if isinstance(given, CannotMeasure):
        how = given.kind if isinstance(given, Unreachable) else NOT_REACHED
        step = _without(node, given.next_step)
        return Answer(how, reason=_without(node, given.bare if given.whose else given.reason), next_step=step)
    left = ", ".join(sorted({each.partition(" ")[2] for each in given.stuck}))
    reason = f"could not be ended, it waits in the kernel: {left}" if left else ""
    how = ENDED
    if given.timed_out or given.exit_code is None:
        how = TIMED_OUT
        reason = "; ".join(filter(None, (f"not over after {limit_s:g} s, it was ended", reason)))
    return Answer(how, given.exit_code, given.stdout, given.stderr, given.truncated, reason)


def _without(node: Node, text: str) -> str:
    for name in sorted({node.name, node.address}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", "NODE", text)
    return text


def groups(answers: Iterable[tuple[str, Answer]]) -> list[Group]:
    """Equal answers together, the biggest group first."""
    found: dict[Answer, list[str]] = {}
    for name, answer in answers:
        found.setdefault(answer, []).append(name)
    alike = [Group(tuple(sorted(names, key=natural)), answer) for answer, names in found.items()]
    return sorted(alike, key=lambda group: (-len(group.nodes), natural(group.nodes[0])))


def lines(found: Sequence[Group], most_bytes: int) -> Iterator[str]:
    """The groups for people: a head between two rules, the output below it; last how many ended how."""
    for group in found:
        answer = group.answer
        yield from (RULE, f"{visible(fold(group.nodes), most=_MOST_LINE)} ({len(group.nodes)}): {_said(answer)}", RULE)
        yield from _shown(answer.stdout, OUT)
        yield from _shown(answer.stderr, ERR)
        if answer.is_cut:
            yield f"[cut: more than {most_bytes >> 10} KiB; only the first are kept]"
        elif answer.is_reached and not answer.stdout and not answer.stderr:
            yield "[no output]"
    yield from ("", counts_in_words(found))


def counts_in_words(found: Iterable[Group]) -> str:
    """How many nodes ended how: "8 nodes: 6 exit 0, 1 exit 3, 1 timeout"."""
    counts: Counter[str] = Counter()
    for group in found:
        counts[group.answer.in_short] += len(group.nodes)
    total = counted(sum(counts.values()), "node")
    return f"{total}: {', '.join(f'{count} {what}' for what, count in counts.most_common())}"


def as_json(group: Group) -> dict[str, object]:
    """A group in `nodegate.exec/1`; bytes that are not UTF-8 are shown by their codes."""
    answer = group.answer
    return {
        "nodes": list(group.nodes),
        "hostlist": fold(group.nodes),
        "how": answer.how,
        "exit_code": answer.exit_code,
        "stdout": text_of(answer.stdout),
        "stderr": text_of(answer.stderr),
        "is_cut": answer.is_cut,
        "reason": answer.reason,
        "next_step": answer.next_step,
    }


def text_of(raw: bytes) -> str:
    """Bytes of a node as text from which they can be told apart again."""
    return raw.decode("utf-8", "backslashreplace")


def _said(answer: Answer) -> str:
    if answer.how == ENDED:
        return f"exit {answer.exit_code}" + (f"; {visible(answer.reason)}" if answer.reason else "")
    step = f" - {answer.next_step}" if answer.next_step else ""
    return visible(" ".join(f"{answer.how}: {answer.reason}{step}".split()))


def _shown(raw: bytes, mark: str) -> Iterator[str]:
    if raw:
        text = text_of(raw).replace("\r\n", "\n").removesuffix("\n")
        yield from (mark + visible(line, most=_MOST_LINE) for line in text.split("\n"))
