"""What every transport provides: an open session with one node, on which programs are run within limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nodegate.node import Node
    from nodegate.records.taken_key import TakenKey
    from nodegate.transport.call import Call

MAX_OUTPUT_BYTES = 4 << 20
LOCK_PATH = "/run/lock/nodegate.lock"
LOCK_LIMIT_S = 26 * 3600.0


@dataclass(frozen=True)
class Output:
    """What a program on a node left behind.

    `exit_code` is None if nodegate ended the program (`timed_out`, or the session was closed); as in a shell it is
    127 for a missing program, 126 for one that cannot be started, 128 + n for one that signal n ended.
    `truncated` is true when it wrote more than the limit to either stream; the first part is kept. Durations are
    seconds by the controller's clock. `stuck` names what outlived SIGKILL ("pid name state", state D: it waits inside
    the kernel, usually for a driver that hangs): a finding in itself.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True)
class Busy:
    """Another run holds the node. `holder` is what it wrote about itself, made printable."""

    holder: str


class NodeLock(AbstractContextManager["NodeLock"]):
    """The node is locked for this run until `release`, or until the connection or this process ends."""

    def __init__(self, path: str, release: Callable[[], None]) -> None:
        self.path = path
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Release the node. May be called twice."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __exit__(self, *_: object) -> None:
        self.release()


class Session(Protocol):
    """An open session with one node. One connection per node for the whole run; safe to use from several threads."""

    node: Node
    taken_keys: tuple[TakenKey, ...]  # host keys on the way to it that were not known before

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        as_root: bool = False,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> Output:
        """Run a program on the node, in its own process group, and wait for it.

        The program and all its children end at `timeout_s`, when the session is closed, and when the controller dies,
        even by `kill -9`.
        `as_root` uses `sudo -n` if the login is not root.

        Raises:
            Unreachable: the connection broke, or there is no sudo, or no python3 on the node.
        """
        ...

    def start(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", as_root: bool = False) -> Call:
        """Start a program on the node and return at once: for a server whose client runs elsewhere.

        It holds one of the node's SSH channels (sshd's MaxSessions) until `Call.stop`. The same limits apply as
        for `run`, and it raises the same.
        """
        ...

    def hold_lock(self, path: str = LOCK_PATH, *, who: str = "") -> NodeLock | Busy:
        """Take the node for this run, so that two runs never burn it together; never waits.

        The lock is a kernel lock (flock) on `path`, or on /tmp/nodegate-<uid>.lock if `path` cannot be opened,
        in a file that no other user can open (node_side/lock.py). It is taken as root if the inventory says
        `become`. `who` is shown to others.

        Raises:
            Unreachable: as for `run`.
            CannotMeasure: the node has no place for the lock file.
        """
        ...

    def close(self) -> None:
        """End everything that was started on the node, then the connection. May be called twice."""
        ...
