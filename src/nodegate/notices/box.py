"""What a target was sent, and what is still to be sent to it: files beside the fleet's record, none with a secret.

`NAME.json` is what a target knows: its open problems. `NAME-TIME.waiting` is a notice that did not arrive. What is too
old or too much is deleted, and then what the target knows as well: it is sent everything again.
"""

import contextlib
import fcntl
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodegate.files.atomic import write_whole
from nodegate.files.bounded import read_whole
from nodegate.notices.message import Item, Notice
from nodegate.notices.target import Target
from nodegate.records.store import from_bytes, to_bytes

MOST_AGE_S = 7 * 86400.0
MOST_WAITING, MOST_WAITING_BYTES = 50, 4 << 20  # notices of one target
_MOST_BYTES = 64 << 20  # of a file: 1,250 nodes with twenty problems each take ten
_LOCK_S = 90.0  # while another run sends to the same target


@dataclass(frozen=True, slots=True)
class Open:
    """A problem that a target knows: what it was sent, its verdict, and the check that looks at it."""

    item: Item
    verdict: str
    check: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What a target knows: when the newest run that it was sent began, the verdicts on nodes, the open problems."""

    target: str
    started_epoch_s: float = 0.0
    verdicts: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, Open] = field(default_factory=dict)


class Box:
    """The files of one target in the folder of notices."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder, self._target = folder, target.name
        self._name = f"{target.scheme}-{hashlib.sha256(target.name.encode()).hexdigest()[:16]}"
        self._known = folder / f"{self._name}.json"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs from this target, unless they take too long, or nothing can be written here."""
        end = time.monotonic() + _LOCK_S
        with contextlib.ExitStack() as opened:
            with contextlib.suppress(OSError):
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = opened.enter_context((self._folder / f"{self._name}.lock").open("ab"))
                while not _locked(file.fileno()) and time.monotonic() < end:
                    time.sleep(0.2)
            yield

    def known(self) -> Sent | None:
        """What the target knows; None where that cannot be said."""
        try:
            found = from_bytes(Sent, read_whole(self._known, _MOST_BYTES), _MOST_BYTES)
        except (OSError, ValueError):
            return None
        return found if found.target == self._target else None

    def remember(self, sent: Sent) -> None:
        """Write what the target knows; OSError if it cannot be written."""
        write_whole(self._known, to_bytes(sent))

    def keep(self, notice: Notice) -> bool:
        """Keep a notice that did not arrive; returns whether an older one was dropped for it.

        Raises:
            OSError: it cannot be written.
        """
        write_whole(self._folder / f"{self._name}-{time.time_ns():020d}.waiting", to_bytes(notice))
        before = len(self._files())
        return len(self._bound()) < before

    def waiting(self) -> Iterator[tuple[Path, Notice]]:
        """The notices that did not arrive, oldest first, each with its file."""
        for file in self._bound():
            notice = None
            with contextlib.suppress(OSError, ValueError):
                notice = from_bytes(Notice, read_whole(file, MOST_WAITING_BYTES))
            if notice is None:
                self._drop(file)
            else:
                yield file, notice

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"{self._name}-*.waiting"))

    def _bound(self) -> list[Path]:
        """What is waiting, oldest first; what is too old or too much was deleted."""
        left, size = list[Path](), 0
        for file in reversed(self._files()):
            about = file.stat()
            size += about.st_size
            if len(left) == MOST_WAITING or size > MOST_WAITING_BYTES or time.time() - about.st_mtime > MOST_AGE_S:
                self._drop(file)
            else:
                left.append(file)
        return left[::-1]

    def _drop(self, file: Path) -> None:
        file.unlink(missing_ok=True)
        self._known.unlink(missing_ok=True)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
