"""What followed, folded over the ranks: equal errors are one line with the ranks and nodes that they were seen on."""

from collections.abc import Iterable
from dataclasses import dataclass

from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Role, Signature
from nodegate.triage.events import Event


@dataclass(frozen=True)
class Group:
    """One kind of event on all the ranks and nodes that had it. `first_s` is when the first of them began."""

    kind: Signature
    text: str
    first_s: float | None
    printed_s: float | None
    count: int
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    log: str
    line: int


def fold_events(events: Iterable[Event]) -> list[Group]:
    """The events by kind, in the order in which the first of each was printed; context lines are left out."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        if event.kind.role is not Role.CONTEXT:
            kinds.setdefault(event.kind.id, []).append(event)
    groups = [_group(alike) for alike in kinds.values()]
    return sorted(groups, key=lambda group: (group.printed_s is None, group.printed_s or 0.0))


def _group(events: list[Event]) -> Group:
    first = min(events, key=lambda event: (event.printed_s is None, event.printed_s or 0.0, event.line))
    began = [event.began_s for event in events if event.began_s is not None]
    return Group(
        kind=first.kind,
        text=first.text,
        first_s=min(began, default=None),
        printed_s=first.printed_s,
        count=sum(event.count for event in events),
        ranks=tuple(sorted({event.place.rank for event in events if event.place.rank is not None})),
        nodes=tuple(sorted({event.place.node for event in events if event.place.node})),
        devices=tuple(sorted({event.device for event in events if event.device})),
        log=first.log,
        line=first.line,
    )


def rank_list(ranks: Iterable[int]) -> str:
    """0-30,32: ranks as people write them."""
    folded = fold(f"r{rank}" for rank in ranks)
    return folded.removeprefix("r").strip("[]") if folded.count("r") == 1 else folded
