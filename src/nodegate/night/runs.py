"""The pytest runs of a night, each in a process of its own, ended when the night is over; and whose turn it is.

Who was not tested for longest comes first, and who is busy now comes last.
"""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular
from nodegate.night.settings import NightSettings
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, NodeVerdict
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.text import counted

TO_END_S = 180.0  # for a run that is asked to end: it ends what runs on the nodes and writes its reports
_SLICE_S = 0.2
ACCEPTED, NOT_ALL, NONE_JUDGED = 0, 1, 5  # pytest's exit codes of a run that came to its end
NEVER = -math.inf
_RUNS = """
select cast(node as text), cast(verdict as text), cast(started_epoch_s as real) as at from decisions
join runs on runs.id = run where profile in ('nightly', 'delivery') order by at
"""


@dataclass(frozen=True)
class Ended:
    """A run of the night: its folder, pytest's exit code, why it was cut short (empty: it was not), its report."""

    folder: Path
    code: int
    trouble: str
    report: Report | None

    @property
    def nodes(self) -> tuple[NodeReport, ...]:
        """Its nodes; none where it left no report."""
        return self.report.nodes if self.report else ()

    @property
    def judged(self) -> int:
        """How many nodes were looked at: not those that were busy."""
        return sum(each.verdict is not NodeVerdict.NOT_JUDGED for each in self.nodes)

    @property
    def counts(self) -> str:
        """Its nodes in words. A run of a part (--passive) accepts no node, and says how many are without a fault."""
        accepted, busy = sum(each.verdict in GOOD for each in self.nodes), len(self.nodes) - self.judged
        partly = sum(each.is_partly_judged for each in self.nodes)
        found = f"{accepted} of {counted(self.judged, 'node')} accepted"
        if partly and not accepted:
            found = f"no fault on {partly} of {counted(self.judged, 'node')}, a run of a part accepts none"
        return found + (f"; {busy} busy" if busy else "")


class Runs:
    """Starts runs, one after the other. `keep` is a descriptor that they hold open: the lock of the night."""

    def __init__(self, wanted: NightSettings, log: Path, keep: int) -> None:
        self._wanted, self._log, self._keep = wanted, log, keep
        self.asked_to_end = False

    def run(self, folder: Path, nodes: str, until_s: float, *, resume: bool = False) -> Ended:
        """One run over these nodes (a pattern; empty: all), ended at `until_s` (seconds since the epoch)."""
        where = "--resume" if resume else "--run-dir"
        asked = ["--profile", "nightly", where, str(folder), "--record", str(self._wanted.record)]
        asked += [word for each in self._wanted.inventory for word in ("--inventory", each)]
        asked += ["--nodes", nodes] if nodes else []
        command = [sys.executable, "-m", "nodegate.cli", "test", "-q", *asked, *self._wanted.options]
        with self._log.open("ab") as log:
            going = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(self._keep,),
                start_new_session=True,  # Ctrl-C reaches it through us, once
            )
            code, trouble = self._waited(going, until_s)
        if not trouble and code not in (ACCEPTED, NOT_ALL, NONE_JUDGED):
            trouble = f"pytest ended with exit code {code}: {self._last_line()}"
        return Ended(folder, code, trouble, _report(folder))

    def _waited(self, going: subprocess.Popen[bytes], until_s: float) -> tuple[int, str]:
        trouble = ""
        while going.poll() is None:
            if self.asked_to_end or time.time() >= until_s:
                trouble = "it was asked to end" if self.asked_to_end else "its time was over"
                _end(going)
            time.sleep(_SLICE_S)
        code = going.returncode
        return code, trouble or (f"killed by {signal.Signals(-code).name}" if code < 0 else "")

    def _last_line(self) -> str:
        try:
            with open_regular(self._log) as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return f"see {self._log}"
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:200] if said else f"see {self._log}"


def ended_before(folder: Path) -> Ended:
    """A run that came to its end before its night was killed."""
    report = _report(folder)
    is_bad = any(each.is_no_success for each in (report.nodes if report else ()))
    return Ended(folder, NOT_ALL if is_bad else ACCEPTED, "", report)


def _end(going: subprocess.Popen[bytes]) -> None:
    """Ask it to end as Ctrl-C does; at last with all that it started."""
    for how, wait_s in ((signal.SIGINT, TO_END_S), (signal.SIGINT, TO_END_S / 3)):
        going.send_signal(how)
        try:
            going.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
        return
    os.killpg(going.pid, signal.SIGKILL)
    going.wait()


def _report(folder: Path) -> Report | None:
    """The report of a run; None where it left none."""
    try:
        return load(folder)
    except UsageError:
        return None


@dataclass
class Turn:
    """What nights and deliveries have seen of a node. Times are seconds since the epoch.

    `tried_s` is the newest run that found it idle, or did not reach it; `tested_s` the newest that judged it; `first_s`
    the first run that had it. `busy` counts the runs since then that found it busy, one after the other.
    """

    node: str
    tried_s: float = NEVER
    tested_s: float = NEVER
    first_s: float = math.inf
    busy: int = 0

    def add(self, verdict: str, at_s: float) -> None:
        """One run more; they come oldest first."""
        self.first_s = min(self.first_s, at_s)
        if verdict == NodeVerdict.NOT_JUDGED:
            self.busy += 1
            return
        self.tried_s = at_s
        if verdict != NodeVerdict.UNREACHABLE:
            self.tested_s, self.busy = at_s, 0

    def waits_s(self, now_s: float) -> float:
        """For how long it was not tested, as far as the record goes."""
        return max(0.0, now_s - max(self.tested_s, min(self.first_s, now_s)))


def turns(base: sqlite3.Connection | None, nodes: Iterable[str]) -> dict[str, Turn]:
    """What the record knows of these nodes; a node that it does not know was never tested."""
    found = {node: Turn(node) for node in nodes}
    for node, verdict, at in base.execute(_RUNS) if base else ():
        if node in found:
            found[node].add(verdict, at)
    return found


def in_turn(found: Iterable[Turn], busy: Collection[str] = ()) -> list[str]:
    """The nodes in the order in which they are tested; those that the scheduler says are `busy` are tried last.

    Who was tried and not reached goes to the end too: it must not keep others from their turn.
    """
    return [each.node for each in sorted(found, key=lambda turn: (turn.node in busy, turn.tried_s))]


def overdue(found: Iterable[Turn], every_s: float, now_s: float) -> Sequence[Turn]:
    """Who was not tested for that long, the longest first."""
    return sorted((each for each in found if each.waits_s(now_s) >= every_s), key=lambda each: -each.waits_s(now_s))
