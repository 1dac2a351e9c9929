"""What all sessions with a guard on the node share: run, start, lock, close."""

import contextlib
import getpass
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.node import Node
from nodegate.node_program import node_source
from nodegate.records.taken_key import TakenKey
from nodegate.transport.beat import BEAT
from nodegate.transport.call import END_S, LOGIN_STEP, START_S, Call, Request, printable
from nodegate.transport.channel import Channel
from nodegate.transport.session import LOCK_LIMIT_S, LOCK_PATH, MAX_OUTPUT_BYTES, Busy, NodeLock, Output

CLOSE_S = 8.0  # a guard needs up to 5 s to end what it started


class GuardedSession(ABC):
    """A session that starts one guard for each program. Safe to use from several threads."""

    answer_s = START_S  # from the login to the first word of a program of ours: python3 may be on a slow file system

    def __init__(self, node: Node, taken_keys: tuple[TakenKey, ...] = ()) -> None:
        self.node, self.taken_keys = node, taken_keys
        self._open: set[Call] = set()
        self._held: set[Call] = set()  # those that keep the lock
        self._changed = threading.Condition()
        self._closed = False
        self._silent: Unreachable | None = None
        self.login_step = LOGIN_STEP
        self._room: AbstractContextManager[object] = contextlib.nullcontext()  # in which `run` waits for its turn

    @abstractmethod
    def _channel(self, *, as_root: bool) -> Channel:
        """Start a guard on the node. Raises Unreachable."""

    def why(self, said: str) -> Unreachable | None:  # noqa: ARG002 - for commands that speak for themselves
        """Why no guard started, by what the way to the node itself said; None where that is not known."""
        return None

    def _disconnect(self) -> None:  # noqa: B027 - a local session has nothing to disconnect
        """End the connection itself."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        as_root: bool = False,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> Output:
        """See `Session.run`."""
        with self._room:
            call = self._start(Request(argv, timeout_s, stdin, as_root, max_output_bytes))
            try:
                return call.output()
            finally:
                self.finish(call)

    def start(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", as_root: bool = False) -> Call:
        """See `Session.start`."""
        return self._start(Request(argv, timeout_s, stdin, as_root))

    def hold_lock(self, path: str = LOCK_PATH, *, who: str = "") -> NodeLock | Busy:
        """See `Session.hold_lock`."""
        connection = self.node.connection
        argv = [connection.python, "-I", "-S", "-c", node_source("lock") + "\nmain(*sys.argv[1:])"]
        call = self._start(Request([*argv, path, who or this_run()], LOCK_LIMIT_S, as_root=connection.become))
        word, _, rest = "", "", ""
        try:
            word, _, rest = call.line(self.answer_s + END_S).partition(" ")
        finally:
            if word != "held":
                self.finish(call)
        if word == "held":
            with self._changed:
                self._open.discard(call)
                self._held.add(call)
            return NodeLock(rest, lambda: self._give_back(call))
        if word == "busy":
            return Busy(printable(rest.encode(), 200) or "another run")
        reason, step = f"the lock file could not be opened: {rest}", "make /run/lock writable for the login"
        raise CannotMeasure(reason, next_step=step, whose=self.node.name)

    def close(self) -> None:
        """See `Session.close`."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            running, held = list(self._open), list(self._held)
        for call in running + held:
            call.channel.end_input()
        for call in held:
            self._give_back(call)
        with self._changed:
            self._changed.wait_for(lambda: not self._open, CLOSE_S)
        self._disconnect()

    def _start(self, request: Request) -> Call:
        if self._closed:
            raise Unreachable("dropped", "the session is closed", next_step="open a new one", whose=self.node.name)
        if self._silent:
            silent = self._silent
            raise Unreachable(silent.kind, silent.bare, next_step=silent.next_step, whose=silent.whose)
        channel = self._channel(as_root=request.as_root)
        call = Call(channel, replace(request, lease_s=self.node.connection.lease_s), self)
        with self._changed:
            self._open.add(call)
        try:
            call.start()
        except BaseException:
            self.finish(call)
            raise
        if call.lease_s:
            BEAT.keep(call)
        return call

    def was_silent(self, silent_s: float) -> Unreachable:
        """We were stopped: what ran there has ended, the lock too, and nothing is started there any more."""
        step = "do not suspend or stop the controller during a run, and give it processors; then continue with --resume"
        reason = f"the controller was silent for {silent_s:.0f} s"
        self._silent = Unreachable("dropped", reason, next_step=step, whose=self.node.name)
        return self._silent

    def stands_still(self, what: str) -> Unreachable:
        """A node that did not answer once is not contacted again: the whole fleet would wait for it each time."""
        step = "check its console: it may hang"
        self._silent = Unreachable("timeout", what, next_step=step, whose=self.node.name)
        return self._silent

    def finish(self, call: Call) -> None:
        """Release what a program had."""
        BEAT.leave(call)
        call.channel.close()
        with self._changed:
            self._open.discard(call)
            self._changed.notify_all()

    def _give_back(self, call: Call) -> None:
        with self._changed:
            if call not in self._held:
                return
            self._held.discard(call)
        BEAT.leave(call)
        call.channel.end_input()
        with contextlib.suppress(Unreachable):  # a hung node is not waited for: its lock expires
            call.ended(0.0 if self._silent else CLOSE_S)
        call.channel.close()


def this_run() -> str:
    """Who holds the lock, for users who find the node busy."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()} since {since}"
