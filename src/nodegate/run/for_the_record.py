"""What a run leaves to the fleet's record: its verdicts and causes, where parts are, what the kernel log has."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.judge.identity import real_serial
from nodegate.knowledge.xid_lines import GpuEvent, gpu_events
from nodegate.past.event import BOOT, XID, Event
from nodegate.past.kept import KeptNode, KeptRun
from nodegate.past.keys import CHASSIS, Keys, Placed
from nodegate.records import part
from nodegate.records.part import Kind
from nodegate.records.verdict import GOOD
from nodegate.run.hooks_for_the_record import hook_events
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nodegate.facts import NodeFacts
    from nodegate.records.part import Parts
    from nodegate.report.model import Report
    from nodegate.run.judging import Judging

MOST_EVENTS = 64  # of one node and run, the newest
_SAME_S = 3600.0  # equal Xids of one GPU within an hour are one event
_LOG = "kernel log"


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
    try:
        log, boot_id = facts.kernel_log, facts.host.boot_id
    except CannotMeasure:
        return ()
    found = [] if isinstance(boot_id, Unknown) else list(_boot(log.boot_epoch_s, boot_id, keys))
    newest: dict[tuple[str, int], float] = {}
    for each in gpu_events(log.lines):
        if isinstance(each, GpuEvent) and not isinstance(each.epoch_s, Unknown):
            key = keys.of(parts.complete(part.gpu(address=each.address)).short if each.address else "")
            last, newest[key, each.code] = newest.get((key, each.code)), each.epoch_s
            if last is None or each.epoch_s - last > _SAME_S:
                found.append(Event(each.epoch_s, XID, keys.node, key, _LOG, str(each.code)))
    return tuple(sorted(found, key=lambda event: event.epoch_s)[-MOST_EVENTS:])


def _boot(epoch_s: object, boot_id: str, keys: Keys) -> Iterator[Event]:
    if isinstance(epoch_s, float):
        yield Event(epoch_s, BOOT, keys.node, keys.machine, _LOG, boot_id)


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
