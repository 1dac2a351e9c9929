"""What a run leaves to the fleet's record: verdicts, causes, where parts are, what kernel log and hooks have.

Of what the hooks of a node noted each change of verdict is an event; passes are counted a day.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.exit_codes import Exit
from nodegate.facts import known_or_none
from nodegate.judge.identity import real_serial
from nodegate.knowledge.xid_lines import GpuEvent, gpu_events
from nodegate.past.event import BOOT, HOOK, HOOK_DROPPED, HOOK_FIT, HOOK_UNREAD, XID, Event
from nodegate.past.keys import CHASSIS, KeptNode, KeptRun, Keys, Placed
from nodegate.records import part
from nodegate.records.part import Kind
from nodegate.records.verdict import GOOD
from nodegate.unknown import Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.probe.hooks import HookVerdict
    from nodegate.records.part import Parts
    from nodegate.report.model import Report
    from nodegate.run.judging import Judging

MOST_EVENTS = 64  # of one node and run, the newest
_SAME_S = 3600.0  # equal Xids of one GPU within an hour are one event
_LOG = "kernel log"
MOST_CHANGES = 256  # of one node and run, the newest
_DAY_S = 86400


def placed_parts(facts: NodeFacts, parts: Parts) -> tuple[Placed, ...]:
    """The chassis, GPUs and RDMA adapters of a node that have a number of their own."""
    found = {each.short: real_serial(each.serial) for each in parts if each.kind is Kind.GPU}
    twice = {serial for serial, count in Counter(found.values()).items() if count > 1}
    for each in parts:
        if each.kind is Kind.GPU and (not found[each.short] or found[each.short] in twice):
            found[each.short] = real_serial(each.uuid)  # several GPUs of one board share its serial number
    with contextlib.suppress(CannotMeasure):
        found |= {each.name: real_serial(each.node_guid) for each in facts.rdma.devices}
    with contextlib.suppress(CannotMeasure):
        found[CHASSIS] = real_serial(facts.host.serial)
    uuids = {each.short: real_serial(each.uuid) for each in parts if each.kind is Kind.GPU}
    return tuple(Placed(slot, serial, uuids.get(slot, "")) for slot, serial in found.items() if serial)


def events_of(node: str, facts: NodeFacts, parts: Parts, placed: Iterable[Placed]) -> tuple[Event, ...]:
    """The start of its present boot and the Xids of its GPUs, oldest first; then what its hooks noted."""
    keys = Keys(node, placed)
    return (*_of_the_log(keys, facts, parts), *hook_events(facts, keys))


def _of_the_log(keys: Keys, facts: NodeFacts, parts: Parts) -> tuple[Event, ...]:
    log, host = known_or_none(lambda: facts.kernel_log), known_or_none(lambda: facts.host)
    if log is None or host is None:
        return ()
    found: list[Event] = []
    if isinstance(log.boot_epoch_s, float) and not isinstance(host.boot_id, Unknown):
        found = [Event(log.boot_epoch_s, BOOT, keys.node, keys.machine, _LOG, host.boot_id)]
    newest: dict[tuple[str, int], float] = {}
    for each in gpu_events(log.lines):
        if isinstance(each, GpuEvent) and not isinstance(each.epoch_s, Unknown):
            key = keys.of(parts.complete(part.gpu(address=each.address)).short if each.address else "")
            last, newest[key, each.code] = newest.get((key, each.code)), each.epoch_s
            if last is None or each.epoch_s - last > _SAME_S:
                found.append(Event(each.epoch_s, XID, keys.node, key, _LOG, str(each.code)))
    return tuple(sorted(found, key=lambda event: event.epoch_s)[-MOST_EVENTS:])


def kept_run(
    report: Report, judging: Judging, folder: str, of_slurm: Mapping[str, Sequence[Event]] | None = None
) -> KeptRun:
    """What the record keeps of a run, with Slurm's events by node.

    Numbers of a bad node are kept too; later runs are not compared with them.
    """
    nodes = [
        KeptNode(
            node,
            node.verdict in GOOD or node.is_sound,
            report.node_causes[node.node],
            summary.placed if summary else (),
            judging.view.traits(node.node) if summary else {},
            (*(summary.events if summary else ()), *(of_slurm or {}).get(node.node, ())),
        )
        for node in report.nodes
        for summary in [judging.contexts.summary(node.node)]
    ]
    return KeptRun(report.run, folder, nodes, judging.view.shared, judging.view.metrics)


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
    with contextlib.suppress(CannotMeasure, NotApplicable):
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
    hooks = known_or_none(lambda: facts.hooks)
    return value_or(hooks.verdicts, ()) if hooks else ()


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
