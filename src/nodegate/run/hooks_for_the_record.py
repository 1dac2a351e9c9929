"""What the hooks of a node noted, as events of the fleet's record: each change of verdict, passes counted a day."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.exit_codes import Exit
from nodegate.past.event import HOOK, HOOK_DROPPED, HOOK_FIT, HOOK_UNREAD, Event
from nodegate.unknown import Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.past.keys import Keys
    from nodegate.probe.hooks import HookVerdict

MOST_CHANGES = 256  # of one node and run, the newest
_DAY_S = 86400


def hook_events(facts: NodeFacts, keys: Keys) -> Iterator[Event]:
    """The events, changes first. Collected twice they are the same, by boot id and number."""
    verdicts = _verdicts(facts)
    yield from _missing(facts, verdicts, keys)
    for each in _changes(verdicts)[-MOST_CHANGES:]:
        text = f"{each.hook}: {each.line}"
        yield Event(each.epoch_s, HOOK, keys.node, keys.machine, f"{each.boot_id}/{each.sequence}", text)
    days = Counter((each.boot_id, each.epoch_s // _DAY_S) for each in verdicts if each.answer == Exit.FIT.word)
    for (boot_id, day), count in days.items():
        yield Event(day * _DAY_S, HOOK_FIT, keys.node, keys.machine, boot_id, str(count))


def _missing(facts: NodeFacts, verdicts: Sequence[HookVerdict], keys: Keys) -> Iterator[Event]:
    """What the spool does not have, or not as a hook writes it."""
    with suppress(CannotMeasure, NotApplicable):
        hooks, now_s = facts.hooks, facts.host.clock_epoch_s
        if isinstance(hooks.verdicts, Unknown):
            return
        oldest_s = verdicts[0].epoch_s if verdicts else now_s
        for kind, count, at_s in ((HOOK_DROPPED, hooks.dropped, oldest_s), (HOOK_UNREAD, hooks.unread, now_s)):
            if count:
                yield Event(at_s, kind, keys.node, keys.machine, str(count), str(count))


def last_hook(facts: NodeFacts) -> HookVerdict | None:
    """The last of them, whichever hook; None where none is known."""
    return max(_looked(_verdicts(facts)), key=lambda each: each.epoch_s, default=None)


def _verdicts(facts: NodeFacts) -> Sequence[HookVerdict]:
    """What they noted; nothing where the evidence is from before, or the spool cannot be read."""
    try:
        return value_or(facts.hooks.verdicts, ())
    except (CannotMeasure, NotApplicable):
        return ()


def _looked(verdicts: Sequence[HookVerdict]) -> list[HookVerdict]:
    """Who found the node busy did not look."""
    return [each for each in verdicts if each.answer != Exit.BUSY.word]


def _changes(verdicts: Sequence[HookVerdict]) -> list[HookVerdict]:
    """Those that say something else than the one before them, whichever hook; a first one that is fit says nothing."""
    found: list[HookVerdict] = []
    last: tuple[str, tuple[str, ...], bool] = (Exit.FIT.word, (), False)
    for each in _looked(verdicts):
        what = (each.answer, each.causes, bool(each.done))
        if what != last:
            found.append(each)
        last = what
    return found
