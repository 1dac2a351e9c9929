"""An authenticated paramiko connection: the route, the host key, the login."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import paramiko

from nodegate.errors import Unreachable
from nodegate.records.taken_key import TakenKey
from nodegate.transport import dial
from nodegate.transport.banner import SAID_BUSY, TurnedAway, await_banner
from nodegate.transport.call import printable
from nodegate.transport.dial import Way
from nodegate.transport.host_key import HostKeys
from nodegate.transport.identities import identities, open_agent
from nodegate.transport.options import Options
from nodegate.transport.ssh_config import HostConfig
from nodegate.transport.turns import LIMIT_TIMES, way_to

KEEPALIVE_S = 15
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
    """A connection that is logged in, and the unknown host keys on the way to it."""

    transport: paramiko.Transport
    taken_keys: tuple[TakenKey, ...]
    release: Callable[[], None]

    def close(self) -> None:
        """End the connection and the jump hosts' connections under it."""
        self.transport.close()
        self.release()


def open_client(config: HostConfig, options: Options, *, keys: HostKeys, timeout_s: float, retries: int) -> Client:
    """Connect and log in within four times `timeout_s`; a server that turns us away is tried again.

    Raises:
        Unreachable: see its kinds.
    """
    limit_s = LIMIT_TIMES * timeout_s
    end_s = time.monotonic() + limit_s

    once = partial(_open_once, config, options, keys, timeout_s, end_s)
    return options.turns.take(way_to(config), once, retries=retries, within_s=limit_s)


def _open_once(config: HostConfig, options: Options, keys: HostKeys, timeout_s: float, end_s: float) -> Client:
    def left_s() -> float:
        return max(0.1, min(timeout_s, end_s - time.monotonic()))

    way = _way(config, options, left_s())
    transport = None
    try:
        sock = await_banner(way.sock, config.label, left_s())
        transport = _Transport(sock)  # type: ignore[arg-type]  # it has all that is asked of a socket
        transport.offered = keys.algorithms()
        transport.set_log_channel("nodegate.paramiko")
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout_s
        _negotiate(transport, config.label, left_s())
        own = keys.check(transport.get_remote_server_key())
        log_in(transport, config, left_s)
        transport.set_keepalive(KEEPALIVE_S)
    except BaseException as error:
        if transport is not None:
            transport.close()
        way.sock.close()
        said = way.last_words() if way.last_words else None
        way.release()
        if isinstance(error, TurnedAway) and said is not None:
            raise _command_ended(config, said) from None
        raise
    return Client(transport, (*way.taken_keys, *([own] if own else [])), way.release)


def _command_ended(config: HostConfig, said: bytes) -> Unreachable:
    """The ProxyCommand ended before the banner of the server behind it."""
    printed = printable(said)
    reason = f"the ProxyCommand to {config.label} ended: {printed or 'it printed nothing'}"
    if SAID_BUSY.search(printed):
        return TurnedAway("jump-host", reason, next_step="raise MaxStartups in the sshd_config of the bastion")
    return Unreachable("jump-host", reason, next_step="run that command by hand")


def _way(config: HostConfig, options: Options, timeout_s: float) -> Way:
    """The bytes to the server's SSH port."""
    if config.proxy_jump:

        def dial_jump(jump: HostConfig) -> Client:
            keys = HostKeys(jump, options.host_key_mode(jump.host_keys), options.known_hosts)
            return open_client(jump, options, keys=keys, timeout_s=jump.connect_timeout_s or timeout_s, retries=3)

        channel, release, taken = options.jump_hosts.through(config, timeout_s, dial_jump)
        return Way(channel, release, taken_keys=taken)
    return dial.by_command(config) if config.proxy_command else dial.direct(config, timeout_s)


def _negotiate(transport: paramiko.Transport, label: str, timeout_s: float) -> None:
    """Banner, key exchange, and the proof that the server has the host key's private half."""
    start_s = time.monotonic()
    try:
        transport.start_client(timeout=timeout_s)
        transport.get_remote_server_key()  # raises if there was no time for it
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _no_agreement(error, label, time.monotonic() - start_s, timeout_s) from None


def _no_agreement(error: Exception, label: str, took_s: float, timeout_s: float) -> Unreachable:
    said = printable((getattr(error, "strerror", None) or str(error) or type(error).__name__).encode())
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        step = f"update its sshd, or {BINARY}"
        return Unreachable("configuration", f"{label}: no algorithm in common: {said}", next_step=step)
    if took_s > timeout_s * 0.95:
        step = "look at its console: its sshd accepts connections but does not answer"
        return Unreachable("timeout", f"{label}: key exchange not finished within {timeout_s:g} s", next_step=step)
    if "Invalid SSH banner" in said:
        return Unreachable("dropped", f"{label} is not an SSH server: {said}", next_step="correct the address or port")
    if "packet" in said.lower():
        reason = f"{label} sent what is not SSH in the key exchange: {said}"
        return Unreachable("dropped", reason, next_step="check what answers on this port, and what is in between")
    reason = f"{label} closed the connection during the key exchange: {said}"
    return Unreachable("dropped", reason, next_step="check its sshd's log")


def log_in(transport: paramiko.Transport, config: HostConfig, left_s: Callable[[], float]) -> None:
    """Try each key in turn. `left_s`: the time limit of the next one.

    Raises:
        Unreachable: kind `authentication`, with every key that was tried.
    """
    tried: list[str] = []
    notes: list[str] = []
    agent = open_agent(config)
    try:
        for identity in identities(config, agent, notes):
            transport.auth_timeout = left_s()
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
                said = f"{identity.label} was accepted, but the server also requires {', '.join(left)}"
                raise _denied(config, said, BINARY)
            return
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
