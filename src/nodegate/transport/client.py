"""An authenticated paramiko connection: the route, the host key, the login."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paramiko

from nodegate.errors import Unreachable
from nodegate.transport import dial
from nodegate.transport.call import printable
from nodegate.transport.dial import TurnedAway, Way
from nodegate.transport.host_key import HostKeys
from nodegate.transport.identities import identities, open_agent

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from nodegate.taken_key import TakenKey
    from nodegate.transport.options import Options
    from nodegate.transport.ssh_config import HostConfig

KEEPALIVE_S = 15
RETRY_S = 60.0  # the longest time of all attempts together
FIRST_PAUSE_S = 0.5
TURN_S = 10.0
_TURNS: dict[tuple[str, int], threading.Lock] = {}
BINARY = "use ansible_connection: ssh-binary, which logs in with the ssh program"
LOG = logging.getLogger("nodegate.transport")
logging.getLogger("nodegate.paramiko").addHandler(logging.NullHandler())  # its tracebacks are for --log-level only


class _Transport(paramiko.Transport):
    """Asks the server for the chosen host key algorithms."""

    offered: tuple[str, ...] = ()

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        return self.offered


@dataclass(frozen=True)
class Client:
    """A connection that is logged in: its host key, which key logged in, and the unknown host keys on the way to it."""

    transport: paramiko.Transport
    host_key: str
    taken_keys: tuple[TakenKey, ...]
    login: str
    release: Callable[[], None]

    def close(self) -> None:
        """End the connection and the jump hosts' connections under it."""
        self.transport.close()
        self.release()


def open_client(config: HostConfig, options: Options, *, keys: HostKeys, timeout_s: float, retries: int) -> Client:
    """Connect; a server that closes the connection before its banner is tried again, `retries` times within a minute.

    Raises:
        Unreachable: see its kinds.
    """
    end = time.monotonic() + RETRY_S
    # Connections that a server refused are tried again one after another, so that they do not displace each other.
    turn = _TURNS.setdefault((config.host_name, config.port), threading.Lock())
    for attempt in range(retries + 1):
        mine = attempt > 0 and turn.acquire(timeout=TURN_S)
        try:
            return _open_once(config, options, keys, timeout_s)
        except TurnedAway as error:
            if mine:
                turn.release()
                mine = False
            pause_s = FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
            if attempt == retries or time.monotonic() + pause_s > end:
                raise
            LOG.warning("%s; try %d of %d in %.1f s", error.reason, attempt + 2, retries + 1, pause_s)
            time.sleep(pause_s)
        finally:
            if mine:
                turn.release()
    raise AssertionError


def _open_once(config: HostConfig, options: Options, keys: HostKeys, timeout_s: float) -> Client:
    way = _way(config, options, timeout_s)
    transport = None
    try:
        dial.await_banner(way.sock, config.label, timeout_s)
        transport = _transport(way.sock, keys.algorithms(), timeout_s)
        _negotiate(transport, config.label, timeout_s)
        vouched = keys.check(transport.get_remote_server_key())
        login = log_in(transport, config)
        transport.set_keepalive(KEEPALIVE_S)
    except BaseException as error:
        if transport is not None:
            transport.close()
        way.sock.close()
        said = way.last_words() if way.last_words else None
        way.release()
        if isinstance(error, TurnedAway) and said is not None:
            reason = f"the ProxyCommand to {config.label} ended: {printable(said) or 'it printed nothing'}"
            raise Unreachable("jump-host", reason, next_step="run that command by hand") from None
        raise
    taken = (*way.taken_keys, *([vouched.taken] if vouched.taken else []))
    return Client(transport, vouched.said, taken, login, way.release)


def _way(config: HostConfig, options: Options, timeout_s: float) -> Way:
    """The bytes to the server's SSH port."""
    if config.proxy_jump:

        def dial_jump(jump: HostConfig) -> Client:
            keys = HostKeys(jump, options.host_key_mode(jump.host_keys), options.known_hosts)
            return open_client(jump, options, keys=keys, timeout_s=jump.connect_timeout_s or timeout_s, retries=3)

        channel, release, taken = options.jump_hosts.through(config, timeout_s, dial_jump)
        return Way(channel, release, taken_keys=taken)
    return dial.by_command(config) if config.proxy_command else dial.direct(config, timeout_s)


def _transport(sock: socket.socket | paramiko.Channel, algorithms: tuple[str, ...], timeout_s: float) -> _Transport:
    transport = _Transport(sock)
    transport.offered = algorithms
    transport.set_log_channel("nodegate.paramiko")
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout_s
    return transport


def _negotiate(transport: paramiko.Transport, label: str, timeout_s: float) -> None:
    """Banner, key exchange, and the proof that the server has the host key's private half."""
    start_s = time.monotonic()
    try:
        transport.start_client(timeout=timeout_s)
        transport.get_remote_server_key()  # raises if there was no time for it
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _no_agreement(error, label, time.monotonic() - start_s, timeout_s) from None


def _no_agreement(error: Exception, label: str, took_s: float, timeout_s: float) -> Unreachable:
    said = printable((str(error) or type(error).__name__).encode())
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        step = f"update its sshd, or {BINARY}"
        return Unreachable("configuration", f"{label}: no algorithm in common: {said}", next_step=step)
    if took_s > timeout_s * 0.95:
        step = "look at its console: its sshd accepts connections but does not answer"
        return Unreachable("timeout", f"{label}: key exchange not finished within {timeout_s:g} s", next_step=step)
    if "Indecipherable" in said or "Invalid SSH banner" in said:
        return Unreachable("dropped", f"{label} is not an SSH server: {said}", next_step="correct the address or port")
    if "banner" in said:
        return TurnedAway("dropped", f"{label}: {said}", next_step=dial.BUSY_STEP)
    reason = f"{label} closed the connection during the key exchange: {said}"
    return Unreachable("dropped", reason, next_step="check its sshd's log")


def log_in(transport: paramiko.Transport, config: HostConfig) -> str:
    """Try each key in turn. Returns the name of the one that was accepted.

    Raises:
        Unreachable: kind `authentication`, with every key that was tried.
    """
    tried: list[str] = []
    notes: list[str] = []
    agent = open_agent(config)
    try:
        for identity in identities(config, agent, notes):
            try:
                left = transport.auth_publickey(config.user, identity.key)
            except paramiko.BadAuthenticationType as error:
                kinds = ", ".join(error.allowed_types)
                raise _denied(config, f"it does not accept keys, only {kinds}", BINARY) from None
            except (paramiko.SSHException, EOFError, OSError) as error:
                tried.append(identity.label)
                _must_go_on(transport, config, tried, error)
                continue
            if left:
                raise _denied(
                    config, f"{identity.label} was accepted, but the server also requires {', '.join(left)}", BINARY
                )
            return identity.label
    finally:
        if agent is not None:
            agent.close()
    said = f"refused: {', '.join(tried)}" if tried else "no key was available"
    said += f" ({'; '.join(notes)})" if notes else ""
    step = f"put the public key into ~{config.user}/.ssh/authorized_keys on the node, or set the right user and key"
    raise _denied(config, said, step)


def _must_go_on(transport: paramiko.Transport, config: HostConfig, tried: list[str], error: Exception) -> None:
    """After a refused key the server must still accept the next one."""
    if "timeout" in str(error).lower():
        step = "check its sshd's log; often its DNS or directory service hangs"
        raise Unreachable("timeout", f"{config.label} did not answer the login in time", next_step=step) from None
    if not transport.is_active():
        reason = f"it closed the connection after {len(tried)} keys ({', '.join(tried)}): {error}"
        raise _denied(config, reason, "set the right key: ansible_ssh_private_key_file, or IdentitiesOnly") from None


def _denied(config: HostConfig, reason: str, next_step: str) -> Unreachable:
    return Unreachable("authentication", f"{config.label}: login failed: {reason}", next_step=next_step)
