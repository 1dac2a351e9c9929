"""The facts of one node: one connection, its lock, one round trip; or its recording."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from nodegate.engines.engine import Answer
from nodegate.errors import Busy, CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.judge.context import facts_of
from nodegate.judge.identity import changes
from nodegate.node import Node
from nodegate.records.evidence import FACTS, Evidence, parse_evidence
from nodegate.records.manifest import MANIFEST, Manifest
from nodegate.records.run_folder import EVIDENCE, RunFolder
from nodegate.transport.replay import ReplaySession
from nodegate.transport.session import Busy as Held
from nodegate.transport.session import Session

FACTS_TIMEOUT_S = 60.0
IDENTITY_SECTIONS = ("system", "nvml")


def facts(
    session: Session,
    *,
    measurement: str = FACTS,
    sections: Sequence[str] | None = None,
    limit_s: float | None = None,
    already: Answer | None = None,
) -> Evidence:
    """What the node reports now; only `sections` if they are given. `limit_s` in place of `FACTS_TIMEOUT_S`.

    `already`: what it has answered to `nodegate.probe.collect.request`; it is not asked again.

    Raises:
        CannotMeasure: it reports nothing usable.
    """
    from nodegate.probe.collect import collect, collected  # noqa: PLC0415

    started, clock, node = time.time(), time.monotonic(), session.node
    limit_s = FACTS_TIMEOUT_S if limit_s is None else limit_s
    if already:
        document = collected(already.output, already.received_epoch_s, timeout_s=limit_s)
        started = document.received_epoch_s - document.round_trip_s
    else:
        document = collect(session, timeout_s=limit_s, as_root=node.connection.become, sections=sections)
    return Evidence(
        node.name,
        measurement,
        started,
        document.round_trip_s if already else time.monotonic() - clock,
        document.received_epoch_s,
        document.round_trip_s,
        document=document.raw,
        taken_keys=session.taken_keys if measurement == FACTS else (),
    )


def kept(evidence: Evidence) -> NodeFacts:
    """The facts that measurements may ask for: without the kernel log, the largest part by far."""
    document = dict(evidence.document or {})
    sections = document.get("sections")
    if isinstance(sections, dict):
        document["sections"] = {name: each for name, each in sections.items() if name != "kernel_log"}
    return facts_of(replace(evidence, document=document))


def check_same(session: Session, kept: Evidence) -> None:
    """Check that the machine that answers now is the one whose facts a resumed run keeps.

    Raises:
        CannotMeasure: it is another one, or does not answer.
    """
    again = facts(session, sections=IDENTITY_SECTIONS)
    if odd := changes(facts_of(kept), facts_of(again)):
        step = "look which machine answers at this address; --resume once more measures it as a whole"
        raise CannotMeasure(f"not the machine that was measured before: {'; '.join(odd)}", next_step=step)


def who(run: str) -> str:
    """How this process signs the lock of a node: no other run writes the same."""
    return f"nodegate run {run[:100]} on {socket.gethostname()[:60]}, process {os.getpid()}"


def lock(session: Session, who: str) -> bool:
    """Lock the node, so that two runs never use it at once; released when the session is closed.

    False if this run has it already: another name of the inventory is the same machine.

    Raises:
        Busy: another run has it.
    """
    taken = session.hold_lock(session.node.connection.lock, who=who)
    if isinstance(taken, Held):
        if taken.holder == who:
            return False
        reason = f"another run holds the node's lock ({taken.holder})"
        raise Busy(reason, next_step="wait for it to end, then run again")
    return True


def recorded(node: Node, measurement: str) -> Evidence:
    """The recording of a node: evidence of an error if there is none.

    If the recordings are the evidence of a run, they must be what its manifest says.
    """
    recordings = Path(node.connection.recordings)
    if recordings.name == EVIDENCE and (recordings.parent / MANIFEST).exists():
        found = RunFolder(recordings.parent, _manifest(recordings.parent)).recorded_evidence(node.name, measurement)
        if found is not None:
            return found
    try:
        raw = ReplaySession(node).recording(measurement)
    except CannotMeasure as said:
        return Evidence(node.name, measurement, time.time(), 0.0, error=said)
    return parse_evidence(raw, node=node.name, measurement=measurement, file=f"recording of {node.name}")


@lru_cache(maxsize=4)
def _manifest(run: Path) -> Manifest:
    """One reader for all nodes of a run: it is read again only after it has changed."""
    return Manifest(run)
