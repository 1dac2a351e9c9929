"""One night: nodes in their turn, tested in runs of pytest until all were or the time is over."""

import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nodegate.engines.engine import BUSY
from nodegate.errors import UsageError
from nodegate.inventory.hostlist import fold
from nodegate.night import retention, state
from nodegate.night.runs import NOT_ALL, Ended, Runs, Turn, ended_before, in_turn, overdue, turns
from nodegate.night.settings import NightSettings
from nodegate.night.state import NightState
from nodegate.node import Node
from nodegate.notices.target import Target
from nodegate.notices.tell import tell_event, tell_run
from nodegate.past import database
from nodegate.records.run_folder import RunFolder
from nodegate.scheduler.jobs import by_slurm_name
from nodegate.scheduler.slurm import busy_nodes
from nodegate.text import counted, day_of

ALL_ACCEPTED, NOT_DONE = 0, 2
REPORTS = Path("reports")


class Night:
    """One night. `lock` is the descriptor of its lock; `lines` are what it has to say, one sentence each."""

    def __init__(self, wanted: NightSettings, targets: Sequence[Target], lock: int) -> None:
        self._wanted, self._lock = wanted, lock
        self._before = state.read(REPORTS)
        self._now = NightState(started_s=time.time(), ended=False, overdue=self._before.overdue)
        self._now.until_s = self._now.started_s + wanted.within_s
        self.lines: list[str] = []
        self._to = targets, wanted.record, wanted.lang
        self._done: list[Ended] = []

    def run(self) -> int:
        """Do it; returns the exit code of `nodegate nightly`."""
        try:
            return self._run()
        except (UsageError, OSError) as broken:
            said = str(broken) if isinstance(broken, UsageError) else f"{broken.filename}: {broken.strerror}"
            self.lines.append(f"the night could not be done: {said}")
            self._event("not-run", reason=said)
            return NOT_DONE

    def _run(self) -> int:
        self._retention()  # first: it may be what makes room
        nodes = self._nodes()
        log = state.new_log(REPORTS)
        runs = Runs(self._wanted, log, self._lock)
        with _signals(runs):
            left = self._rounds(runs, nodes)
        if left:
            self.lines.append(f"the time of the night was over: {counted(len(left), 'node')} not tested: {fold(left)}")
        self._overdue(nodes)
        self._now.ended, self._now.folder = True, ""
        with suppress(OSError):  # the next night then says that this one was cut short
            state.write(REPORTS, self._now)
        return self._result()

    def _nodes(self) -> Mapping[str, Node]:
        from nodegate.inventory import inventory  # noqa: PLC0415

        if "-" in self._wanted.inventory:
            raise UsageError("--inventory -: a night has no standard input", hint="name a file")
        known = inventory.read(self._wanted.inventory)
        chosen = known.select(self._wanted.nodes) if self._wanted.nodes else known.nodes
        return {node.name: node for node in chosen}

    def _rounds(self, runs: Runs, nodes: Mapping[str, Node]) -> list[str]:
        """Run after run; returns the nodes whose turn did not come."""
        names = by_slurm_name(nodes.values())
        busy = {name for name, node in nodes.items() if BUSY in node.groups}
        busy |= {names[each] for each in busy_nodes(names)} if names else set()
        waiting = self._go_on(runs, self._turns(nodes), busy)
        most, took_s = self._wanted.most_nodes or len(nodes), 0.0
        while waiting and not runs.asked_to_end and time.time() + took_s < self._now.until_s:
            chosen, waiting = waiting[:most], waiting[most:]
            began = time.time()
            pattern = self._wanted.nodes if len(chosen) == len(nodes) else fold(chosen)
            ended = self._one(runs, REPORTS / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}-nightly", pattern)
            took_s = time.time() - began
            if ended.trouble:
                break
        return waiting

    def _go_on(self, runs: Runs, known: Mapping[str, Turn], busy: Collection[str]) -> list[str]:
        """Go on with a night that was killed within its time; returns the nodes that are to be tested, in turn."""
        before, waiting = self._before, in_turn(known.values(), busy)
        if before.ended:
            return waiting
        if before.until_s <= self._now.started_s:
            began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(before.started_s))
            self.lines.append(f"the night that began at {began} was cut short")
            self._event("cut-short", reason=f"the night that began at {began} did not come to its end")
            return waiting
        self._now.started_s, self._now.until_s = before.started_s, before.until_s
        tested = {turn.node for turn in known.values() if turn.tried_s >= before.started_s}
        folder = Path(before.folder)
        if before.folder and (folder / "report.json").is_file():
            tested.update(each.node for each in self._end(ended_before(folder)).nodes)
        elif before.folder and (folder / "run.json").is_file():
            self.lines.append(f"goes on with {folder}, which was killed")
            tested.update(each.node for each in self._one(runs, folder, "", resume=True).nodes)
        return [node for node in waiting if node not in tested]

    def _one(self, runs: Runs, folder: Path, pattern: str, *, resume: bool = False) -> Ended:
        self._now.folder = str(folder)
        state.write(REPORTS, self._now)
        ended = runs.run(folder, pattern, self._now.until_s, resume=resume)
        self._now.folder = ""
        if (folder / "run.json").is_file():
            RunFolder(folder).point_latest()
        return self._end(ended)

    def _end(self, ended: Ended) -> Ended:
        """A run is over: say what went wrong with it, and what is new in it."""
        self._done.append(ended)
        if ended.trouble:
            self.lines.append(f"{ended.folder}: cut short: {ended.trouble}")
            self._event("cut-short", reason=ended.trouble)
        if ended.report:  # its notice also says if it judged no node
            self.lines += tell_run(ended.folder, *self._to, entrance="nightly", report=ended.report)
        return ended

    def _result(self) -> int:
        """Say how the night ended."""
        for ended in self._done:
            if ended.report:
                self.lines.append(f"{ended.counts}: {ended.folder}/report.html")
            else:
                self.lines.append(f"no report: see {REPORTS / state.LOG}")
        if not any(ended.judged for ended in self._done):
            self.lines.append("no node was judged")
            return NOT_DONE
        if any(ended.trouble for ended in self._done):
            return NOT_DONE
        return NOT_ALL if any(ended.code == NOT_ALL for ended in self._done) else ALL_ACCEPTED

    # What it rests on ---------------------------------------------------------------------------------------------

    def _turns(self, nodes: Sequence[str] | Mapping[str, Node]) -> dict[str, Turn]:
        with ExitStack() as opened:
            base = None
            if self._wanted.record.exists():
                try:
                    base = opened.enter_context(database.reading(self._wanted.record))
                except UsageError as broken:
                    self.lines.append(f"the record cannot be read, so the order is that of the inventory: {broken}")
            return turns(base, nodes)

    def _retention(self) -> None:
        if not self._wanted.keep_s:
            return
        gone, left = retention.expire(REPORTS, self._wanted.record, time.time() - self._wanted.keep_s)
        if gone:
            self.lines.append(f"deleted: {counted(len(gone), 'run folder')} of nights, older than --keep")
        self.lines += [f"old and not deleted: {each}" for each in left]

    def _overdue(self, nodes: Mapping[str, Node]) -> None:
        """Say who was not tested for too long; tell it when these are others than the last time."""
        now = time.time()
        late = overdue(self._turns(nodes).values(), self._wanted.every_s, now)
        for each in late:
            since = day_of(each.tested_s if each.tested_s > 0 else each.first_s)
            self.lines.append(f"{each.node}: not tested since {since}; busy in each of the last {each.busy} runs")
        names = tuple(sorted(each.node for each in late))
        if names and names != self._now.overdue:
            self._event("busy", nodes=fold(names), days=int(self._wanted.every_s // 86400))
        self._now.overdue = names

    def _event(self, kind: str, **fields: object) -> None:
        """Send what no run says: the night was not done or was cut short, or nodes wait for too long."""
        if self._to[0]:
            self.lines += tell_event(kind, fields, *self._to)


@contextmanager
def _signals(runs: Runs) -> Iterator[None]:
    """While a night runs, Ctrl-C and systemd's stop end its run in good order, which then writes its report."""

    def asked(*_: object) -> None:
        runs.asked_to_end = True

    before = {each: signal.signal(each, asked) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
