"""The verdict on this node now: a fresh one that another hook cached, or a bootcheck.

The cache is a file of this boot that only root or this user can have written.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nodegate.demands.demands import Demands
from nodegate.demands.here import demands_here
from nodegate.errors import UsageError
from nodegate.exit_codes import Exit
from nodegate.files.atomic import replacing
from nodegate.files.bounded import read_trusted
from nodegate.hook import passed

FILE = Path("/run/nodegate/verdict.json")
_SCHEMA = "nodegate.kept/2"
_MOST_BYTES = 16 << 10
_MOST_CAUSES = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")
BUSY_LIMIT_S = 5.0
TURN_LIMIT_S = 15.0  # a bootcheck takes a second; after that the node's own lock answers `busy`
# If other jobs may be on the node, what they use does not count against it.
_ON_GPUS, _ON_THE_HOST = "idle.", "host.ports"


@dataclass(frozen=True)
class Answer:
    """The result of a bootcheck; `age_s` is its age if it was cached, else None.

    `causes` are the ids of its causes, `demands` is the hash of what the site asks of the node.
    """

    exit: Exit
    line: str
    age_s: float | None = None
    causes: tuple[str, ...] = ()
    demands: str = ""

    def shown(self) -> str:
        """The line, with its age."""
        return self.line if self.age_s is None else f"{self.line} (checked {self.age_s:.0f} s ago)"


@dataclass(frozen=True)
class Question:
    """The limits by which the node is judged, and where the answer is cached.

    `demands` is the demands file, in place of /etc/nodegate/demands.yaml. `exclusive`: no other job can be on the node
    now, so what still uses a GPU or a port was left behind; `every_gpu`: none can be on a GPU. `gate` is the file
    with the boards that have passed: with others the node is unfit.
    """

    file: Path
    baselines: tuple[Path, ...] = ()
    platform: str = ""
    exclusive: bool = False
    demands: Path | None = None
    every_gpu: bool = False
    gate: Path | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """The checks that would find other jobs."""
        return () if self.exclusive else (_ON_THE_HOST,) if self.every_gpu else (_ON_GPUS, _ON_THE_HOST)

    def key(self, demands: str) -> str:
        """What a cached answer must agree with: the same limits, unchanged, and the same demands, by their hash."""
        files = [(str(path), _changed(path)) for path in self.baselines]
        return repr((self.platform, self.left_out, files, demands, self.gate and (str(self.gate), _changed(self.gate))))


def _changed(path: Path) -> tuple[int, int] | None:
    """A value that changes with the file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def answer(question: Question, *, fresh_s: float) -> Answer:
    """The verdict on this node, not older than `fresh_s` seconds (0: measured now).

    A cached verdict is used if it says fit. If it says unfit, the node is measured again, so that a repaired one is not
    drained because of an old verdict; but if that could not tell, the cached verdict applies. Where the demands cannot
    be used no verdict applies.
    """
    try:
        demands = demands_here(question.demands)
    except UsageError as said:
        return Answer(Exit.UNKNOWN, f"could not tell: {said}")
    key = question.key(demands.sha256 if demands else "")
    not_before_s = now_s() - fresh_s
    with _turn(question.file.with_suffix(".lock")):
        known = kept(question.file, key, not_before_s)
        if known and known.exit is Exit.FIT:
            return known
        measured_s = now_s()
        found = _bootcheck(question, demands)
        if found.exit in (Exit.FIT, Exit.UNFIT):
            with suppress(OSError):  # the next hook measures for itself
                keep(question.file, key, found, measured_s)
            return found
        return known or found


def _bootcheck(question: Question, demands: Demands | None) -> Answer:
    """A bootcheck now; another one that holds the node (the last hook's lock takes a moment to disappear) ends soon."""
    from nodegate.run.bootcheck import WHO, bootcheck  # noqa: PLC0415 - a kept word needs none of it

    expected = {"platform": question.platform} if question.platform else {}
    end = time.monotonic() + BUSY_LIMIT_S
    while True:
        outcome = bootcheck(
            baselines=question.baselines, expected=expected, demanded=lambda: demands, without=question.left_out
        )
        if outcome.exit is not Exit.BUSY or WHO not in outcome.line or time.monotonic() > end:
            causes, code, line = tuple(cause.id for cause in outcome.causes), outcome.exit, outcome.line
            if question.gate and code is Exit.FIT and (said := passed.held_back(question.gate, outcome.serials)):
                code, line = said
            return Answer(code, line, causes=causes, demands=outcome.demands)
        time.sleep(0.1)


@contextmanager
def _turn(file: Path) -> Iterator[None]:
    """Wait for another hook on this node: two bootchecks would find the node busy, and the second can use the first's.

    If the lock file cannot be written there is no waiting: the node's own lock still separates them.
    """
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    end = time.monotonic() + TURN_LIMIT_S
    try:
        while not _locked(descriptor) and time.monotonic() < end:
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def now_s() -> float:
    """Seconds since this boot, including suspended time: a clock that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep(file: Path, asked: str, found: Answer, measured_s: float) -> None:
    """Store a verdict. `asked` says from which limits it comes, `measured_s` when the measurement began.

    Raises:
        OSError: the file cannot be written.
    """
    if not file.parent.exists():
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    causes = found.causes[:_MOST_CAUSES]
    said = {"exit_code": int(found.exit), "line": found.line, "causes": causes, "demands": found.demands}
    with replacing(file) as written:
        os.fchmod(written.fileno(), 0o644)
        json.dump({"schema": _SCHEMA, "boot": boot_id(), "measured_s": measured_s, "asked": asked, **said}, written)


def kept(file: Path, asked: str, not_before_s: float) -> Answer | None:
    """The cached verdict, if it can be trusted, is from the same limits and is not too old."""
    try:
        said = json.loads(read_trusted(file, _MOST_BYTES))
        measured_s = float(said["measured_s"])
        causes, age_s = tuple(map(str, said["causes"])), now_s() - measured_s
        found = Answer(Exit(said["exit_code"]), str(said["line"]), age_s, causes, str(said["demands"]))
        same = (said["schema"], said["boot"], said["asked"]) == (_SCHEMA, boot_id(), asked)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if same and not_before_s <= measured_s <= now_s() else None


def boot_id() -> str:
    """The kernel's name for this boot."""
    return _BOOT.read_text().strip()
