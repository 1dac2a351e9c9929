"""What a rank that is missing from a hang printed last, where no time near it shows when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.knowledge.words import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodegate.triage.events import Event

_LOOKS_ALONE = "error_line"


def of(missing: Iterable[int], overcome: Iterable[Event]) -> Event | None:
    """The error of a rank that did not reach a collective, although other ranks went on for a time.

    A line without a time, after which its writer printed none, may be of any moment later than the time before it:
    iterations of another worker do not show that the job got over it.
    """
    ranks = set(missing)
    said = [
        event
        for event in overcome
        if event.place.rank in ranks
        and event.stamp is None
        and event.until is None
        and event.kind.role in (Role.PRIMARY, Role.EITHER)
        and event.kind.id != _LOOKS_ALONE
    ]
    return min(said, key=lambda event: (event.kind.role is not Role.PRIMARY, event.log, event.line), default=None)
