"""The measuring of a run, over all nodes at once, with the results kept as evidence: facts, load, facts again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from nodegate.errors import END_OF_THE_RUN, CannotMeasure, UsageError
from nodegate.measure.measurement import Target
from nodegate.measure.registry import FACTS_AFTER
from nodegate.node import Node
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.run_folder import RunFolder
from nodegate.run import node_facts
from nodegate.run.gate import Gate
from nodegate.run.holding import Holding, Reaches, is_lent
from nodegate.run.load import Connections, Load, Plan, left_out
from nodegate.run.progress import WAIT_SLICE_S, Progress, ThreadPool
from nodegate.run.run_evidence import drop_what_failed
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport.session import Session

NOT_TAKEN = 8  # nodes whose facts are there and not judged yet, beside the one of each thread
PATIENCE_S = 15.0  # a node that takes longer is waited for, and another one is begun in its place
COUNTER_SECTIONS = ("system", "pci", "nvml", "infiniband", "netdev", "kernel_log")


class Campaign:
    """The measuring part of a run: threads in the controller, one connection per node, evidence as it comes."""

    def __init__(self, plan: Plan, folder: RunFolder, connections: Connections, gate: Gate, progress: Progress) -> None:
        self._plan, self._folder, self._connections = plan, folder, connections
        self._gate, self._progress, self._left = gate, progress, len(plan.nodes)
        self._arrived: queue.SimpleQueue[str | UsageError] = queue.SimpleQueue()
        self._not_taken = threading.Semaphore(NOT_TAKEN)
        self._to_do: queue.SimpleQueue[Node] = queue.SimpleQueue()
        self._sessions: set[Session] = set()
        self._targets: dict[str, Target] = {}
        self._other_names: list[str] = []  # of machines that this run has locked under another name
        self._guard = threading.Lock()
        self._begun: dict[int, float] = {}  # thread -> when it began its node
        self._late: set[int] = set()  # those of them that have given their place to another thread
        self._cancelled, self._facts_judged, self._loaded = threading.Event(), threading.Event(), threading.Event()
        self._holding, self._reaches = Holding(plan), Reaches(plan)
        self.trouble = ""  # why the evidence cannot be stored; empty: it can

    def start(self) -> None:
        """Start all nodes of the plan, as many at once as there are threads.

        Raises:
            UsageError: the run folder cannot be written.
        """
        if self._plan.keep:
            names = [node.name for node in self._plan.nodes]
            drop_what_failed(self._folder, names, self._plan.measurements, facts_after=self._plan.facts_after)
        self._folder.measuring()
        self._progress.stage(FACTS, len(self._plan.nodes))
        self._begin_nodes([node for node in self._plan.nodes if not is_lent(node)])
        if self._reaches.nodes:
            threading.Thread(target=self._begin_lent, name="engines", daemon=True).start()

    def _begin_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._to_do.put(node)
        at_once = min(self._plan.nodes_at_once, len(nodes))
        self._begin_workers(at_once)
        if at_once < len(nodes):
            threading.Thread(target=self._give_places, args=(at_once,), name="places", daemon=True).start()

    def _begin_lent(self) -> None:
        """Nodes of an engine: lent first, then asked for their facts all at once, then as all others."""
        try:
            refused, nodes = self._reaches.begin(), self._reaches.nodes
            lent = [node for node in nodes if node.name not in refused]
            self._reaches.ask_all(node for node in lent if self._kept(node) is None)
            self._begin_nodes(lent)
            for node in (each for each in nodes if each.name in refused):
                self._write(Evidence(node.name, FACTS, time.time(), 0.0, error=refused[node.name]))
                self._one_done(node, failed=True)
        except Exception as fault:  # noqa: BLE001 - a thread that dies goes unnoticed: the run would wait forever
            self._give_up(_fault(fault, "reaching its nodes"))

    def _begin_workers(self, count: int) -> None:
        # Not a pool's threads: Python waits for those at its end, and a connection attempt takes long to fail.
        for _ in range(count):
            threading.Thread(target=self._work, name="campaign", daemon=True).start()

    def _give_places(self, at_once: int) -> None:
        """A node that keeps us waiting gives its place to the next; as many are waited for as are worked with."""
        while not self._cancelled.wait(WAIT_SLICE_S) and not self._to_do.empty():
            latest = time.monotonic() - PATIENCE_S
            with self._guard:
                late = [thread for thread, at in self._begun.items() if at < latest and thread not in self._late]
                late = late[: at_once - len(self._late)]
                self._late.update(late)
            self._begin_workers(len(late))

    def arrivals(self) -> Iterator[str]:
        """The names of the nodes in the order in which their facts come in; ends when all is in, including the load.

        Who is slow to take them slows the reading of facts down. May be interrupted by Ctrl-C at any time.

        Raises:
            UsageError: the evidence cannot be stored, so the run cannot continue.
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
                self._not_taken.release()
                yield arrived
                break
        self._facts_judged.set()
        while self._plan.under_load and not self._loaded.wait(WAIT_SLICE_S) and not self._cancelled.is_set():
            pass
        if self.trouble:
            raise UsageError(self.trouble)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of what was left on schedulers."""
        return (*self._holding.notes, *self._reaches.notes)

    def cancel(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """End everything that runs on any node, then return; sooner if `hurry()`. May be called twice."""
        self._cancelled.set()
        with self._guard:
            left_open = list(self._sessions)
            tools = {id(target.session): target.tools for target in self._targets.values()}
        # All at once, because a node that does not answer takes seconds to fail. The rest ends with the process.
        closing = [
            threading.Thread(target=_leave, args=(session, tools.get(id(session))), name="close", daemon=True)
            for session in left_open
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            while thread.is_alive() and not hurry():
                thread.join(WAIT_SLICE_S)
        self._holding.give_back()
        self._finish()

    def _finish(self) -> None:
        self._reaches.end()
        self._folder.measured()
        self._progress.done()

    def _give_up(self, said: UsageError) -> None:
        """The evidence cannot be stored: the run ends."""
        self.trouble = str(said)
        self._cancelled.set()
        self._arrived.put(said)
        self._finish()

    # Facts ----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._cancelled.is_set():
            try:
                node = self._to_do.get_nowait()
            except queue.Empty:
                return
            me = threading.get_ident()
            with self._guard:
                self._begun[me] = time.monotonic()
            try:
                failed = self._facts(node)
            except UsageError as said:
                self._give_up(said)
                return
            with self._guard:
                del self._begun[me]
                late = me in self._late
                self._late.discard(me)
            self._one_done(node, failed=failed)
            if late:
                return

    def _one_done(self, node: Node, *, failed: bool) -> None:
        self._progress.node_done(failed=failed)
        with self._guard:
            self._left -= 1
            left = self._left
        if left == 0 and self._plan.under_load:
            threading.Thread(target=self._put_under_load, name="load", daemon=True).start()
        elif left == 0:
            self._finish()
        # Nodes that come sooner than they are judged would only take processors and memory from that.
        while not self._not_taken.acquire(timeout=WAIT_SLICE_S) and not self._cancelled.is_set():
            pass
        self._arrived.put(node.name)

    def _kept(self, node: Node) -> Evidence | None:
        return self._folder.read_evidence(node.name) if self._plan.keep else None

    def _facts(self, node: Node) -> bool:
        """Whether the facts of a node could not be read; a UsageError where they cannot be stored."""
        kept = self._kept(node)
        if kept is not None and all(self._folder.read_evidence(node.name, name) for name in self._plan.names):
            return False
        evidence = self._measured(node, kept)
        if self._cancelled.is_set():
            return True
        if evidence is not kept:
            self._write(evidence)
        return evidence.error is not None

    def _write(self, evidence: Evidence) -> None:
        try:
            self._folder.write_evidence(evidence)
        except (ValueError, RecursionError) as fault:
            error = CannotMeasure(f"what the node sent cannot be stored: {fault}", next_step="check what it sends")
            self._folder.write_evidence(replace(evidence, document=None, error=error))

    def _measured(self, node: Node, kept: Evidence | None) -> Evidence:
        started, clock = time.time(), time.monotonic()
        try:
            return node_facts.recorded(node, FACTS) if _is_recorded(node) else self._visited(node, kept)
        except CannotMeasure as said:
            error = said
        except Exception as fault:  # noqa: BLE001 - one node's surprise must not end the fleet's run
            error = CannotMeasure(
                f"nodegate itself failed on this node ({type(fault).__name__}: {fault})",
                next_step="report this as an error of nodegate",
            )
        return Evidence(node.name, FACTS, started, time.monotonic() - clock, error=error)

    def _visited(self, node: Node, kept: Evidence | None) -> Evidence:
        """The facts of a node over a connection, which stays open if more is to be measured."""
        session = (self._reaches if is_lent(node) else self._connections).connect(node)
        stays = False
        try:
            with self._guard:
                self._sessions.add(session)
            if self._cancelled.is_set():  # after it is listed: from now on cancel() closes it
                raise CannotMeasure("the run was ended", next_step="continue with --resume", lacks=END_OF_THE_RUN)
            who = node_facts.who(self._folder.path.name)
            ours = not self._plan.take_lock or node_facts.lock(session, who)
            already = self._reaches.already(node)
            evidence = kept or node_facts.facts(session, already=already)
            if not ours:
                self._other_names.append(node.name)
            elif self._plan.under_load:
                if kept:
                    node_facts.check_same(session, kept)
                facts, tools = node_facts.kept(evidence), self._connections.toolbox(session)
                self._targets[node.name] = Target(node, session, facts, tools, self._plan.durations)
                stays = True
            return evidence
        finally:
            if not stays:
                self._end(session, None)

    # Load -----------------------------------------------------------------------------------------------------------

    def _put_under_load(self) -> None:
        while self._plan.judged_here and not self._facts_judged.wait(WAIT_SLICE_S):
            if self._cancelled.is_set():
                return
        try:
            for node in filter(_is_recorded, self._plan.nodes):
                for name in self._plan.names:
                    self._write(node_facts.recorded(node, name))
            for evidence in left_out(self._other_names, self._plan, self._gate):
                self._write(evidence)
            targets = [self._targets[node.name] for node in self._plan.nodes if node.name in self._targets]
            pool = ThreadPool(self._progress, self._cancelled)
            targets = self._held(targets, pool)
            load = Load(self._folder, targets, pool, self._gate, self._holding.lost)
            load.run(self._plan.measurements, keep=self._plan.keep)
            if self._plan.facts_after:
                self._facts_again(targets, pool)
            pool.begin("leaving the nodes")
            pool.at_once({target.node.name: partial(self._leave, target) for target in self._targets.values()})
            if not self._cancelled.is_set():  # else once nothing runs on them any more
                self._holding.give_back()
        except Exception as fault:  # noqa: BLE001 - a thread that dies goes unnoticed: the run would wait forever
            self._give_up(_fault(fault, "under load"))
            return
        if not self._cancelled.is_set():
            self._loaded.set()
            self._finish()

    def _held(self, targets: Sequence[Target], pool: ThreadPool) -> list[Target]:
        """Those on which no job can start now; what cannot be held is not put under load."""
        refused = self._holding.begin([target.node.name for target in targets])
        for node, said in refused.items():
            for name in self._plan.names:
                kept = self._folder.read_evidence(node, name) if self._plan.keep else None
                if kept is None or kept.error is not None:
                    self._write(Evidence(node, name, time.time(), 0.0, error=said))
        pool.at_once({node: partial(self._leave, self._targets.pop(node)) for node in refused})  # a job is on it
        return [target for target in targets if target.node.name not in refused]

    def _leave(self, target: Target) -> None:
        self._end(target.session, target.tools)

    def _end(self, session: Session, tools: Toolbox | None) -> None:
        _leave(session, tools)
        with self._guard:
            self._sessions.discard(session)

    def _facts_again(self, targets: Sequence[Target], pool: ThreadPool) -> None:
        """The counters after the load, also without load: a run of counters only is possible too."""
        if self._plan.keep:
            targets = [each for each in targets if not self._folder.read_evidence(each.node.name, FACTS_AFTER)]
        pool.begin("facts again")
        again = partial(node_facts.facts, measurement=FACTS_AFTER, sections=COUNTER_SECTIONS)
        found = pool.at_once({target.node.name: partial(again, target.session) for target in targets})
        for name, evidence in found.items():
            if self._cancelled.is_set():
                return
            if isinstance(evidence, CannotMeasure):
                evidence = Evidence(name, FACTS_AFTER, time.time(), 0.0, error=evidence)  # noqa: PLW2901
            self._write(evidence)


def _fault(fault: Exception, what: str) -> UsageError:
    return fault if isinstance(fault, UsageError) else UsageError(f"nodegate itself failed {what} ({fault!r})")


def _leave(session: Session, tools: Toolbox | None) -> None:
    """Remove what was brought to the node, then end everything on it."""
    try:
        if tools:
            tools.close()
    finally:
        session.close()


def _is_recorded(node: Node) -> bool:
    return node.connection.transport == "replay"
