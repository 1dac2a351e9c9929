"""What each node must give, measured over all nodes at once, and kept as evidence."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nodegate.errors import Busy, CannotMeasure, UsageError
from nodegate.run.evidence import FACTS, Evidence, RunFolder, parse_evidence
from nodegate.transport.replay import ReplaySession
from nodegate.transport.session import Busy as Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nodegate.node import Node
    from nodegate.run.progress import Progress
    from nodegate.transport.session import Session

    Connect = Callable[[Node], Session]

FACTS_TIMEOUT_S = 60.0
NODES_AT_ONCE = 64
WAIT_SLICE_S = 0.2  # a wait is cut into slices, so that Ctrl-C is heard


@dataclass(frozen=True)
class Plan:
    """The nodes to measure and how.

    `take_lock`: hold the node's lock while it is measured, so that two runs never meet on a node.
    `keep`: evidence that the run folder already holds is good enough (a resumed run).
    """

    nodes: Sequence[Node]
    take_lock: bool = False
    keep: bool = False
    nodes_at_once: int = NODES_AT_ONCE


class Campaign:
    """The measuring part of a run: threads in the controller, one connection per node, evidence as it comes."""

    def __init__(self, plan: Plan, folder: RunFolder, connect: Connect, progress: Progress) -> None:
        self._plan, self._folder, self._connect, self._progress = plan, folder, connect, progress
        self._arrived: queue.SimpleQueue[str | UsageError] = queue.SimpleQueue()
        self._to_do: queue.SimpleQueue[Node] = queue.SimpleQueue()
        self._sessions: set[Session] = set()
        self._guard = threading.Lock()
        self._cancelled = threading.Event()
        self._left = len(plan.nodes)
        self._kept: frozenset[str] = frozenset()
        self.trouble = ""  # why the evidence cannot be kept; empty: it can

    def start(self) -> None:
        """Begin with every node of the plan at once, as far as the threads go.

        Raises:
            UsageError: the run folder cannot be written.
        """
        self._kept = self._good_evidence() if self._plan.keep else frozenset()
        self._folder.measuring()
        self._progress.stage(FACTS, len(self._plan.nodes))
        for node in self._plan.nodes:
            self._to_do.put(node)
        # Not a pool's threads: Python waits for those at its end, and one that connects takes its time to give up.
        for number in range(max(1, min(self._plan.nodes_at_once, len(self._plan.nodes)))):
            threading.Thread(target=self._work, name=f"campaign-{number}", daemon=True).start()

    def arrivals(self) -> Iterator[str]:
        """The names of the nodes in the order in which their evidence comes in; ends when all is in.

        May be interrupted by Ctrl-C at any time.

        Raises:
            UsageError: the evidence cannot be kept, so the run cannot go on.
        """
        for _ in self._plan.nodes:
            while True:
                try:
                    arrived = self._arrived.get(timeout=WAIT_SLICE_S)
                except queue.Empty:
                    if self._cancelled.is_set():
                        return
                    continue
                if isinstance(arrived, UsageError):
                    raise arrived
                yield arrived
                break

    def cancel(self) -> None:
        """End everything that runs on any node, then come back. May be called twice."""
        self._cancelled.set()
        with self._guard:
            left_open = list(self._sessions)
        # All at once, for a node that does not answer takes seconds to give up; and a second Ctrl-C ends the wait.
        closing = [threading.Thread(target=session.close, name="close", daemon=True) for session in left_open]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        self._finish()

    def _finish(self) -> None:
        self._folder.measured()
        self._progress.done()

    def _work(self) -> None:
        while not self._cancelled.is_set():
            try:
                node = self._to_do.get_nowait()
            except queue.Empty:
                return
            try:
                failed = self._measure_and_keep(node)
            except UsageError as said:
                self.trouble = str(said)
                self._cancelled.set()
                self._arrived.put(said)
                self._finish()
                return
            self._one_done(node, failed=failed)

    def _good_evidence(self) -> frozenset[str]:
        """The nodes that need not be measured again. Other evidence goes, so that nobody takes it for the new one."""
        good = set()
        for node in self._plan.nodes:
            evidence = self._folder.read_evidence(node.name)
            if evidence is not None and evidence.error:
                self._folder.drop_evidence(node.name)
            elif evidence is not None:
                good.add(node.name)
        return frozenset(good)

    def _one_done(self, node: Node, *, failed: bool) -> None:
        self._progress.node_done(failed=failed)
        with self._guard:
            self._left -= 1
            left = self._left
        if left == 0:
            self._finish()
        self._arrived.put(node.name)

    def _measure_and_keep(self, node: Node) -> bool:
        """Whether the node could not be measured.

        Raises:
            UsageError: the evidence cannot be kept.
        """
        if node.name in self._kept:
            return False
        evidence = self._measure(node)
        if self._cancelled.is_set():
            return True
        try:
            self._folder.write_evidence(evidence)
        except (ValueError, RecursionError) as fault:
            error = CannotMeasure(f"what the node sent cannot be kept: {fault}", next_step="see what it sends")
            evidence = replace(evidence, document=None, error=error)
            self._folder.write_evidence(evidence)
        return evidence.error is not None

    def _measure(self, node: Node) -> Evidence:
        started, clock = time.time(), time.monotonic()
        try:
            return self._facts(node, started)
        except CannotMeasure as said:
            error = said
        except Exception as fault:  # noqa: BLE001 - one node's surprise must not end the fleet's run
            error = CannotMeasure(
                f"nodegate itself failed on this node ({type(fault).__name__}: {fault})",
                next_step="report this as a fault of nodegate",
            )
        return Evidence(node.name, FACTS, started, time.monotonic() - clock, error=error)

    def _facts(self, node: Node, started: float) -> Evidence:
        if node.connection.transport == "replay":
            return _recorded(node)
        from nodegate.probe.collect import collect  # noqa: PLC0415

        clock = time.monotonic()
        session = self._connect(node)
        try:
            with self._guard:
                self._sessions.add(session)
            if self._cancelled.is_set():  # after it is listed: from here on, cancel() closes it
                raise CannotMeasure("the run was ended", next_step="go on with --resume")
            self._lock(session)
            document = collect(session, timeout_s=FACTS_TIMEOUT_S, as_root=node.connection.become)
        finally:
            with self._guard:
                self._sessions.discard(session)
            session.close()
        return Evidence(
            node.name,
            FACTS,
            started,
            time.monotonic() - clock,
            document.received_epoch_s,
            document.round_trip_s,
            document=document.raw,
        )

    def _lock(self, session: Session) -> None:
        if not self._plan.take_lock:
            return
        lock = session.hold_lock(session.node.connection.lock, who=f"nodegate run {self._folder.path.name}")
        if isinstance(lock, Held):
            reason = f"another run holds the node's lock ({lock.holder})"
            raise Busy(reason, next_step="wait for it to end, then run again")


def _recorded(node: Node) -> Evidence:
    raw = ReplaySession(node).recording(FACTS)
    return parse_evidence(raw, node=node.name, measurement=FACTS, file=f"recording of {node.name}")
