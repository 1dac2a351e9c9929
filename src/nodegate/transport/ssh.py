"""A node over SSH, by paramiko: one connection, one channel for each program."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path

import paramiko

from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport.call import guard_command
from nodegate.transport.channel import CHUNK_BYTES, MAX_NOISE_BYTES, Channel, Errors
from nodegate.transport.client import Client, open_client
from nodegate.transport.guarded import GuardedSession
from nodegate.transport.host_key import HostKeys
from nodegate.transport.options import Options
from nodegate.transport.ssh_config import HostConfig, resolve, ssh_words

DEFAULT_TIMEOUT_S = 15.0
OPEN_S = 30.0
REFUSED_PAUSE_S = 0.2


def host_config(node: Node, options: Options) -> HostConfig:
    """The node's SSH configuration: the inventory's values, then the user's files."""
    connection = node.connection
    words = ["-F", str(options.ssh_config)] if options.ssh_config else []
    words += ssh_words(node.address, connection.port, connection.user, connection.key_files)
    config = resolve(node.address, (*words, *connection.ssh_args))
    named = [str(Path(file).expanduser()) for file in connection.key_files]  # ssh ignores those that do not exist
    return replace(config, identity_files=tuple(dict.fromkeys([*named, *config.identity_files])))


def open_ssh(node: Node, options: Options) -> SshSession:
    """Connect and log in. Raises Unreachable."""
    connection, config = node.connection, host_config(node, options)
    timeout_s = connection.connect_timeout_s
    if timeout_s == DEFAULT_TIMEOUT_S and config.connect_timeout_s:
        timeout_s = config.connect_timeout_s
    keys = HostKeys(config, options.host_key_mode(connection.host_keys, config.host_keys), options.known_hosts)
    client = open_client(config, options, keys=keys, timeout_s=timeout_s, retries=connection.retries)
    return SshSession(node, client)


class SshSession(GuardedSession):
    """An open connection."""

    def __init__(self, node: Node, client: Client) -> None:
        super().__init__(node, client.taken_keys)
        self._client = client

    def _channel(self, *, as_root: bool) -> Channel:
        channel = self._open_channel()
        channel.event = _Answer(OPEN_S)
        try:
            channel.exec_command(guard_command(self.node.connection.python, as_root=as_root))
        except TimeoutError:
            channel.close()
            raise self.stands_still(f"its sshd did not answer within {OPEN_S:g} s") from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            channel.close()
            raise self._broken(error) from None
        return _SshChannel(channel)

    def _open_channel(self) -> paramiko.Channel:
        """A channel; if the server allows no more at once (MaxSessions), wait until one is closed."""
        transport, refused_alone = self._client.transport, 0
        while True:
            try:
                return transport.open_session(timeout=OPEN_S)
            except (paramiko.SSHException, EOFError, OSError) as error:
                # Not by the type: of two threads that are refused at once, paramiko gives the reason to one only.
                if "Timeout" in str(error):
                    raise self.stands_still(f"its sshd did not answer within {OPEN_S:g} s") from None
                if not transport.is_active():
                    raise self._broken(error) from None
                with self._changed:
                    refused_alone = 0 if self._open else refused_alone + 1
                    self._changed.wait(REFUSED_PAUSE_S)
            if refused_alone > 3:
                reason = "its sshd does not run programs"
                step = "raise MaxSessions in its sshd_config (the run's lock needs one, each program another)"
                raise Unreachable("configuration", reason, next_step=step, whose=self.node.name)

    def _broken(self, error: Exception) -> Unreachable:
        said = str(self._client.transport.get_exception() or error) or type(error).__name__
        step = "check whether the node rebooted, hung or lost its network"
        return Unreachable("dropped", f"the connection is broken: {said}", next_step=step, whose=self.node.name)

    def _disconnect(self) -> None:
        self._client.close()


class _Answer(threading.Event):
    """What paramiko waits for without a limit: the answer of an sshd that runs a program, or does not."""

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._limit_s = limit_s

    def wait(self, timeout: float | None = None) -> bool:
        """Raises TimeoutError at the limit."""
        if not super().wait(self._limit_s if timeout is None else timeout) and timeout is None:
            raise TimeoutError
        return self.is_set()


class _SshChannel:
    """A channel of a paramiko connection as a `Channel`."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._errors = Errors()

    def send(self, data: bytes, pause_s: float) -> None:
        self._channel.settimeout(pause_s)
        self._channel.sendall(data)

    def receive(self, timeout_s: float) -> bytes | None:
        self._channel.settimeout(timeout_s)
        try:
            data = self._channel.recv(CHUNK_BYTES)
        except TimeoutError:
            data = None
        self.stderr()
        self._errors.check()
        return data

    def stderr(self) -> bytes:
        for _ in range(MAX_NOISE_BYTES // CHUNK_BYTES):
            if not self._channel.recv_stderr_ready():
                break
            self._errors.add(self._channel.recv_stderr(CHUNK_BYTES))
        return self._errors.kept

    def exit_status(self, timeout_s: float) -> int | None:
        self._channel.status_event.wait(timeout_s)
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1
        return None if status == -1 else status

    def end_input(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
