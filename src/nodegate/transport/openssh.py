"""A node over the ssh program itself: for Kerberos, smart cards and other logins that only OpenSSH supports.

One master connection (ControlMaster) per node; each program is a client of its socket. The master runs `cat` on the
node with the controller's pipe as its input, so that it ends with the controller in any case.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.records.taken_key import NEW, UNVERIFIED, TakenKey
from nodegate.transport.banner import BUSY_STEP, SAID_BUSY, TurnedAway
from nodegate.transport.call import LOGIN_STEP, guard_command, printable
from nodegate.transport.channel import PipeChannel
from nodegate.transport.command import CommandSession, Said
from nodegate.transport.options import Options
from nodegate.transport.ssh import host_config
from nodegate.transport.ssh_config import HostConfig, misconfigured, ssh_words
from nodegate.transport.turns import LIMIT_TIMES, way_to

STRICTNESS = {"strict": "yes", "accept-new": "accept-new", "off": "no"}
AT_ONCE = 8  # of sshd's default MaxSessions of 10 the master and the lock take one each
LONGEST_PLACE = 66
_PREFIX = "ng-"
SSH_FAILED = 255  # ssh's own exit code; a guard never gives it
LOGIN_S = 30.0  # in addition to the time for connecting: a smart card or a ticket server may be slow
TAKEN = re.compile(r"Permanently added '(?P<name>[^']{1,300})'|HOST IDENTIFICATION HAS CHANGED")
MOST_SAID = 4000
_CORRECT = "correct the SSH configuration"
_REINSTALLED = "if the node was reinstalled, delete the old line; else the connection may be intercepted"
_ADD = "add the key to known_hosts, or let new keys be accepted (--host-keys accept-new)"
_TICKET = "try `ssh -v` with the same arguments; check that the ticket or card is present"
# What ssh prints on standard error, in order of precedence.
SAID = (
    Said(r"Bad configuration|[Bb]ad owner|[Bb]ad option|no argument after", "configuration", _CORRECT),
    Said(r"HOST IDENTIFICATION HAS CHANGED|REVOKED HOST KEY", "host-key-changed", _REINSTALLED),
    Said(r"Host key verification failed|host key is known", "host-key-unknown", _ADD),
    Said(r"stdio forwarding failed|UNKNOWN port 65535|[Jj]ump", "jump-host", "try the jump host by hand with `ssh -v`"),
    Said(r"Could not resolve", "unresolved", "correct the name or ansible_host in the inventory"),
    Said(r"Connection refused", "refused", "check that sshd is running and the port is correct"),
    Said(r"timed out", "timeout", "check that it is powered on and that no firewall is in between"),
    Said(r"No route|unreachable", "no-route", "check the routes and the switch port"),
    Said(r"Permission denied|Too many authentication", "authentication", _TICKET),
    Said("", "dropped", "try `ssh -v` with the same arguments"),
)


def open_openssh(node: Node, options: Options) -> OpenSshSession:
    """Start the master connection and wait until it is logged in. Raises Unreachable."""
    if (program := shutil.which("ssh")) is None:
        raise misconfigured(node.name, "ssh is not installed on this machine", "install openssh-client")
    config = host_config(node, options)
    words = _words(node, options, config, program)

    way, retries = way_to(config, by_ssh=True), node.connection.retries
    within_s = LIMIT_TIMES * node.connection.connect_timeout_s
    master = options.turns.take(way, lambda: _Master.open(node, words), retries=retries, within_s=within_s)
    return OpenSshSession(node, master)


def _words(node: Node, options: Options, config: HostConfig, program: str) -> list[str]:
    """The ssh command line up to the host. ssh keeps the first value of each option."""
    connection = node.connection
    mode = options.host_key_mode(connection.host_keys, config.host_keys)
    words = [program, "-T", "-x", "-o", "BatchMode=yes", "-o", f"StrictHostKeyChecking={STRICTNESS[mode]}"]
    words += ["-o", f"ConnectTimeout={max(1, round(connection.connect_timeout_s))}", "-o", "ServerAliveInterval=15"]
    if options.known_hosts:
        files = [str(options.known_hosts), *config.known_hosts_files]
        words += ["-o", "UserKnownHostsFile=" + " ".join(f'"{file}"' for file in files)]
    words += ["-F", str(options.ssh_config)] if options.ssh_config else []
    words += ssh_words(node.address, connection.port, connection.user, connection.key_files)
    return [*words, *connection.ssh_args]


@cache
def _delete_left(place: Path) -> None:
    """Delete the sockets' folders of runs that were killed: each has the number of its process in its name."""
    for folder in place.glob(f"{_PREFIX}*-*"):
        number = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if number.isdecimal() and folder.lstat().st_uid == os.getuid() and not Path("/proc", number).exists():
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Master:
    """The master connection: its process, the private folder of its socket."""

    channel: PipeChannel
    folder: Path
    program: str
    host: str

    @classmethod
    def open(cls, node: Node, words: list[str]) -> _Master:
        # A socket's path has at most 107 bytes, of which ssh adds 17.
        place = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_PLACE else "/tmp"  # noqa: S108
        _delete_left(Path(place))
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
        marker = f"nodegate-{secrets.token_hex(8)}"
        master = ["-o", "ControlMaster=yes", "-o", f"ControlPath={folder}/s", "-o", "ControlPersist=no"]
        command = [words[0], *master, *words[1:], "--", node.address, f"echo {marker}; exec cat >/dev/null"]
        session = cls(PipeChannel(command), folder, words[0], node.address)
        try:
            session.wait(node, marker.encode(), node.connection.connect_timeout_s + LOGIN_S)
        except BaseException:
            session.close()
            raise
        return session

    def wait(self, node: Node, marker: bytes, limit_s: float) -> None:
        """Wait for the login: the marker comes back."""
        seen, end = b"", time.monotonic() + limit_s
        while marker not in seen:
            try:
                data = self.channel.receive(0.5)
            except ValueError as error:
                step = "look at what its sshd and its login print: `ssh -v`"
                raise Unreachable("dropped", str(error), next_step=step, whose=node.name) from None
            if data == b"" or len(seen) > 1 << 20:
                self.channel.exit_status(2.0)
                raise why(node.name, printable(self.channel.stderr(), 600))
            if time.monotonic() > end:
                step = "try the same with `ssh -v`"
                reason = f"login not finished within {limit_s:.0f} s"
                raise Unreachable("timeout", reason, next_step=step, whose=node.name)
            seen += data or b""

    def taken_keys(self) -> tuple[TakenKey, ...]:
        """The host keys of the node and its jump hosts that ssh says it has taken."""
        found = (match["name"] for match in TAKEN.finditer(printable(self.channel.stderr(), MOST_SAID)))
        return tuple(TakenKey(name, NEW if name else UNVERIFIED) for name in found)

    def close(self) -> None:
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def why(name: str, said: str) -> Unreachable:
    """What ssh's messages on standard error mean; `TurnedAway` where the server may take the next one."""
    found = next(each for each in SAID if re.search(each.pattern, said))
    reason = f"ssh: {said or 'ended without a message'}"
    if SAID_BUSY.search(said):
        return TurnedAway(found.kind, reason, next_step=BUSY_STEP, whose=name)
    return Unreachable(found.kind, reason, next_step=found.next_step, whose=name)


class OpenSshSession(CommandSession):
    """A session by clients of an ssh process that holds the connection."""

    broken_exit = SSH_FAILED

    def __init__(self, node: Node, master: _Master) -> None:
        # ProxyCommand=false: without its master this client must fail, not open another connection.
        words = ["-T", "-S", f"{master.folder}/s", "-F", "none", "-o", "BatchMode=yes", "-o", "ProxyCommand=false"]
        words = [master.program, *words, "--", master.host]
        super().__init__(node, words)
        self.taken_keys, self._master, self.login_step = master.taken_keys(), master, LOGIN_STEP
        self._room = threading.BoundedSemaphore(AT_ONCE)  # of sshd's limit

    def _argv(self, *, as_root: bool) -> list[str]:
        """One word, which the login shell there reads."""
        return [guard_command(self.node.connection.python, as_root=as_root)]

    def _disconnect(self) -> None:
        with contextlib.suppress(OSError):
            self._master.close()
