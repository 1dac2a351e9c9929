"""The first words of a server: its SSH banner, within limits of time and size whatever the server sends."""

from __future__ import annotations

import errno
import re
import socket
import time
from typing import TYPE_CHECKING, Any

from nodegate.errors import Unreachable
from nodegate.text import shown

if TYPE_CHECKING:
    import paramiko

MOST_BYTES = 16 << 10  # of the lines that a server may send before its banner, with the banner (RFC 4253, 4.2)
MOST_LINES = 100
MOST_PACKET_BYTES = 1 << 20  # OpenSSH sends and takes 256 KiB at most
BANNER = re.compile(rb"(?m)^SSH-[^\n]{0,251}\n")  # 255 bytes with CR LF
# What sshd sends instead of its banner if too many connections are not logged in yet.
TURNED_AWAY = (b"Exceeded MaxStartups", b"Not allowed at this time")
# And what ssh says.
SAID_BUSY = re.compile(r"kex_exchange_identification|Exceeded MaxStartups|Not allowed at this time")
BUSY_STEP = "raise MaxStartups in its sshd_config, or find out why its sshd closes connections"
_PIECE = 4096


class TurnedAway(Unreachable):
    """The server closed the connection before its banner: it may accept one a moment later."""


class Told:
    """A socket some of whose bytes were read already: they come first. All else is the socket's.

    paramiko asks for a whole packet at once and believes its length, up to 4 GB; here the connection ends instead.
    """

    def __init__(self, sock: socket.socket | paramiko.Channel, read: bytes) -> None:
        self._sock, self._read = sock, read

    def recv(self, size: int) -> bytes:
        """The next bytes. Raises ConnectionError: no SSH server sends a packet of this length."""
        if size > MOST_PACKET_BYTES:
            raise ConnectionError(errno.EPROTO, f"a packet of {size} bytes")
        if self._read:
            first, self._read = self._read[:size], self._read[size:]
            return first
        return self._sock.recv(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def await_banner(sock: socket.socket | paramiko.Channel, label: str, timeout_s: float) -> Told:
    """Wait for the whole banner. Returns the socket as it was before, without the lines before the banner.

    Raises:
        TurnedAway: the server closed the connection without a word, or said that it is busy.
        Unreachable: kind `timeout`, or `dropped`: it is not an SSH server.
    """
    end_s, read = time.monotonic() + timeout_s, b""
    while True:
        if (piece := _receive(sock, end_s - time.monotonic())) is None:
            sent = f"{len(read)} bytes and " if read else ""
            said = f"{sent}no SSH banner within {timeout_s:g} s"
            step = "look at its console: its sshd accepts connections and does not serve them"
            raise Unreachable("timeout", f"{label} sent {said}", next_step=step)
        read += piece
        if read.startswith(TURNED_AWAY) or not (piece or read):
            raise TurnedAway("dropped", f"{label} closed the connection before its SSH banner", next_step=BUSY_STEP)
        if found := BANNER.search(read):
            return Told(sock, read[found.start() :])
        if not piece or len(read) > MOST_BYTES or read.count(b"\n") >= MOST_LINES:
            how = f"and after {len(read)} bytes still no banner" if piece else "and ended"
            said = shown(read[:200].decode("utf-8", "replace"), 60)
            reason = f"{label} is not an SSH server: it sent {said} {how}"
            raise Unreachable("dropped", reason, next_step="correct the address or port")


def _receive(sock: socket.socket | paramiko.Channel, within_s: float) -> bytes | None:
    """The next bytes; empty if the connection ended, None if none came in time."""
    if within_s <= 0:
        return None
    sock.settimeout(within_s)
    try:
        return sock.recv(_PIECE)
    except TimeoutError:
        return None
    except OSError:
        return b""
