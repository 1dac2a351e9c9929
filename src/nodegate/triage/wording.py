"""Parts of sentences in both languages: how long something lasted, a quoted line, a list of nodes."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Iterable
from dataclasses import dataclass

from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Role, Text
from nodegate.triage.events import Event

SAME_MOMENT_S = 0.05  # what is printed as 0.0 s


def lasting(seconds: float) -> Text:
    """0.3 s, 9 s, 10 min, 10 min 9 s, 3 h 20 min."""
    seconds = abs(seconds)
    if seconds < 10:
        number = f"{seconds:.1f}".removesuffix(".0")
        return Text(f"{number} s", f"{number} 秒")
    whole = round(seconds)
    if whole < 60:
        return Text(f"{whole} s", f"{whole} 秒")
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return (
            Text(f"{minutes} min {rest} s", f"{minutes} 分 {rest} 秒")
            if rest
            else Text(f"{minutes} min", f"{minutes} 分钟")
        )
    hours, rest = divmod(whole // 60, 60)
    return Text(f"{hours} h {rest} min", f"{hours} 小时 {rest} 分") if rest else Text(f"{hours} h", f"{hours} 小时")


def later(seconds: float) -> Text:
    """9 s after the error ("after it"), 0.3 s before it, at the same moment. In Chinese it begins the sentence."""
    if abs(seconds) < SAME_MOMENT_S:
        return Text("at the same moment", "与该错误同时，")
    far, after = lasting(seconds), seconds > 0
    return Text(f"{far.en} {'after' if after else 'before'} it", f"该错误 {far.zh}{'后' if after else '前'}")


def cut(text: str, most: int) -> str:
    """A line as it was printed, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def cut_middle(text: str, most: int) -> str:
    """A line without its middle: what matters is at its start, or behind many labels at its end."""
    if len(text) <= most:
        return text
    head = most * 3 // 5
    return f"{text[:head]}…{text[head + 1 - most :]}"


@dataclass(frozen=True)
class Group(Event):
    """One kind of event on all the ranks and nodes that had it: the one printed first, and when the first began."""

    first_s: float | None = None
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


def fold_events(events: Iterable[Event]) -> tuple[Group, ...]:
    """The events by kind, in the order in which the first of each was printed; context lines are left out."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        if event.kind.role is not Role.CONTEXT:
            kinds.setdefault(event.kind.id, []).append(event)
    groups = []
    for alike in kinds.values():
        first = min(alike, key=lambda event: (event.printed_s is None, event.printed_s or 0.0, event.line))
        groups.append(
            Group(
                **{**vars(first), "count": sum(event.count for event in alike)},
                first_s=min((event.began_s for event in alike if event.began_s is not None), default=None),
                ranks=tuple(sorted({event.place.rank for event in alike if event.place.rank is not None})),
                nodes=tuple(sorted({event.place.node for event in alike if event.place.node})),
                devices=tuple(sorted({event.device for event in alike if event.device})),
            )
        )
    return tuple(sorted(groups, key=lambda group: (group.printed_s is None, group.printed_s or 0.0)))


def rank_list(ranks: Iterable[int]) -> str:
    """0-30,32: ranks as people write them."""
    folded = fold(f"r{rank}" for rank in ranks)
    return folded.removeprefix("r").strip("[]") if folded.count("r") == 1 else folded
