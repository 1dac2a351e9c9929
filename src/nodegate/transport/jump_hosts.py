"""Jump hosts: one shared connection to each, for all nodes behind it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.errors import Unreachable
from nodegate.records.taken_key import TakenKey
from nodegate.transport.ssh_config import HostConfig, misconfigured, resolve, ssh_words

if TYPE_CHECKING:
    import paramiko

    from nodegate.transport.client import Client

HOP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@/]+)@)?(?:\[(?P<ip6>[^\]]+)\]|(?P<host>[^:/\[\]]+))(?::(?P<port>\d+))?/?")
MAX_HOPS = 8
REMEMBER_FAILURE_S = 20.0  # so that nodes behind a dead jump host do not wait for it one after another
PROHIBITED, RESOURCE_SHORTAGE = 1, 4  # RFC 4254, 5.1


@dataclass
class _Hop:
    """One jump host: its connections, and how many nodes use them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    clients: list[Client] = field(default_factory=list)
    users: int = 0
    failure: Unreachable | None = None
    failed_s: float = 0.0


class JumpHosts:
    """Opens channels through jump hosts. Safe to use from several threads."""

    def __init__(self) -> None:
        self._hops: dict[tuple[str, ...], _Hop] = {}
        self._lock = threading.Lock()

    def through(
        self, target: HostConfig, timeout_s: float, dial: Callable[[HostConfig], Client]
    ) -> tuple[paramiko.Channel, Callable[[], None], tuple[TakenKey, ...]]:
        """A channel to the target through its jump hosts, and what to call when it is not needed any more.

        `dial` connects to a jump host. The third value are the host keys on the way that were not known before.

        Raises:
            Unreachable: kind `jump-host`, or `configuration`.
        """
        config = jump_config(target)
        key = (config.host, config.label, *config.proxy_jump, config.ssh_config)
        with self._lock:
            hop = self._hops.setdefault(key, _Hop())
            hop.users += 1
        try:
            channel, taken = self._channel(hop, config, target, timeout_s, dial)
        except BaseException:
            self._leave(hop)
            raise
        return channel, lambda: self._leave(hop), taken

    def _channel(
        self,
        hop: _Hop,
        config: HostConfig,
        target: HostConfig,
        timeout_s: float,
        dial: Callable[[HostConfig], Client],
    ) -> tuple[paramiko.Channel, tuple[TakenKey, ...]]:
        from paramiko import ChannelException, SSHException  # noqa: PLC0415 - slow to import

        for fresh in (False, True):
            client = _client(hop, config, dial, fresh=fresh)
            try:
                where = (target.host_name, target.port)
                channel = client.transport.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=timeout_s)
            except ChannelException as error:
                if error.code == RESOURCE_SHORTAGE and not fresh:
                    continue
                raise _refused(config, target, error) from None
            except (SSHException, EOFError, OSError) as error:
                if fresh:
                    said = str(error) or type(error).__name__
                    raise _failed(config, f"lost while connecting to {target.label}: {said}") from None
            else:
                return channel, client.taken_keys
        raise AssertionError

    def _leave(self, hop: _Hop) -> None:
        with self._lock:
            hop.users -= 1
            idle: list[Client] = []
            if hop.users == 0:
                idle, hop.clients = hop.clients, []
        for client in idle:
            client.close()


def _client(hop: _Hop, config: HostConfig, dial: Callable[[HostConfig], Client], *, fresh: bool) -> Client:
    """A live connection to the jump host; the newest, or a new one."""
    with hop.lock:
        alive = [client for client in hop.clients if client.transport.is_active()]
        if alive and not fresh:
            return alive[-1]
        if hop.failure and time.monotonic() - hop.failed_s < REMEMBER_FAILURE_S:
            raise hop.failure
        try:
            client = dial(config)
        except Unreachable as error:
            hop.failure, hop.failed_s = _failed(config, error.reason, error.next_step), time.monotonic()
            raise hop.failure from None
        hop.failure = None
        hop.clients.append(client)
        return client


def jump_config(target: HostConfig, depth: int = 0) -> HostConfig:
    """The last jump host before the target, resolved as ssh does: its own configuration, and the hops before it."""
    spec, before = target.proxy_jump[-1], target.proxy_jump[:-1]
    if (match := HOP.fullmatch(spec)) is None:
        raise misconfigured(target.host, f"{spec!r} is not a valid jump host", "write ProxyJump as [user@]host[:port]")
    host, port = match["ip6"] or match["host"], match["port"]
    words = ["-F", target.ssh_config] if target.ssh_config else []
    words += ["-J", ",".join(before)] if before else []
    config = resolve(host, (*ssh_words(host, int(port) if port else None, match["user"], ()), *words))
    if config.proxy_jump and depth >= MAX_HOPS:
        raise misconfigured(target.host, f"more than {MAX_HOPS} jump hosts", "check whether they form a loop")
    if config.proxy_jump:
        jump_config(config, depth + 1)
    return config


def _failed(config: HostConfig, reason: str, next_step: str = "") -> Unreachable:
    step = next_step or f"try `ssh {config.user}@{config.host}`"
    return Unreachable("jump-host", f"jump host {config.label}: {reason}", next_step=step)


def _refused(config: HostConfig, target: HostConfig, error: paramiko.ChannelException) -> Unreachable:
    if error.code == PROHIBITED:
        step = "allow it in the jump host's sshd_config (AllowTcpForwarding, PermitOpen)"
        return _failed(config, f"it is not allowed to forward to {target.host_name}:{target.port}", step)
    reason = f"it could not connect to {target.host_name}:{target.port} ({error.text})"
    return _failed(config, reason, "check from there that the node is up and its name resolves")
