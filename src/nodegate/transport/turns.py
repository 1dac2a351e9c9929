"""How many connections begin at a server at the same time: as many as it takes, learned from those that it drops.

sshd drops connections at random when more than a few are not logged in yet (MaxStartups, 10:30:100 by default). One
run makes one connection to each node, so a node's own sshd never comes to that; the sshd of a bastion does, when it
is reached again for each node (ProxyCommand, or ProxyJump with ssh-binary), and so does one address of many nodes.
"""

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from nodegate.transport.banner import TurnedAway
from nodegate.transport.ssh_config import HostConfig

Key = tuple[str, ...]
T = TypeVar("T")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
LIMIT_TIMES = 4.0  # each step of connecting has the node's time limit, all of them together this many times it
LOG = logging.getLogger("nodegate.transport")


@dataclass
class _Server:
    """One server, or one way to many: who uses it now, and what is known of it."""

    users: int = 0
    beginning: int = 0
    most: float = float("inf")  # how many may begin at once
    reductions: int = 0
    let_in: int = 0


@dataclass
class Turns:
    """The servers of a run. Safe to use from several threads. Nothing is kept of a server that took all that came."""

    _servers: dict[Key, _Server] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, key: Key, once: Callable[[], T], *, retries: int, within_s: float) -> T:
        """What `once` gives. It is called again where the server turned it away.

        So it is `retries` times; within the time limit it goes on for a server that lets others in, since that one is
        busy and not broken.

        Raises:
            Unreachable: what `once` raised last.
        """
        end_s = time.monotonic() + within_s
        with self._user(key) as server:
            for attempt in itertools.count():
                reductions = self._begin(server, end_s)
                try:
                    got = once()
                except TurnedAway as error:
                    pause_s = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S)
                    pause_s *= random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
                    self._turned_away(server, error, reductions)
                    again = attempt < retries or (retries and server.let_in)
                    if not again or time.monotonic() + pause_s > end_s:
                        raise
                except BaseException:
                    self._ended(server)
                    raise
                else:
                    with self._changed:
                        server.let_in += 1
                        server.most += 1 / server.most  # inf stays what it is
                    self._ended(server)
                    return got
                time.sleep(pause_s)
        raise AssertionError

    @contextmanager
    def _user(self, key: Key) -> Iterator[_Server]:
        with self._changed:
            server = self._servers.setdefault(key, _Server())
            server.users += 1
        try:
            yield server
        finally:
            with self._changed:
                server.users -= 1
                if not server.users and server.most == float("inf"):
                    self._servers.pop(key, None)

    def _begin(self, server: _Server, end_s: float) -> int:
        """Wait for a turn; at the end of the time it goes on without, so that the error is the server's own."""
        with self._changed:
            self._changed.wait_for(lambda: server.beginning < server.most, max(0.0, end_s - time.monotonic()))
            server.beginning += 1
            return server.reductions

    def _ended(self, server: _Server) -> None:
        with self._changed:
            server.beginning -= 1
            self._changed.notify_all()

    def _turned_away(self, server: _Server, error: TurnedAway, reductions: int) -> None:
        with self._changed:
            if server.reductions == reductions:  # else it began before fewer began
                server.most = max(1.0, min(server.most, server.beginning) / 2)
                server.reductions += 1
                level = logging.INFO if reductions else logging.WARNING
                LOG.log(level, "%s; it is tried again, at most %d at once", error.reason, server.most)
        self._ended(server)


def way_to(config: HostConfig, *, by_ssh: bool = False) -> Key:
    """What the connections to a host have in common with those to others: the bastion's program, or its own address.

    `by_ssh`: each ssh process connects to the jump hosts by itself; else all nodes share a connection to them.
    """
    if by_ssh and config.proxy_jump:
        return ("ProxyJump", *config.proxy_jump)
    if config.proxy_command:
        return ("ProxyCommand", config.proxy_command.replace(config.host_name, "%h").replace(str(config.port), "%p"))
    return (*config.proxy_jump, config.host_name, str(config.port))
