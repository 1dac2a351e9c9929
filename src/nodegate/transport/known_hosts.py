"""known_hosts files: hashed and plain names, wildcards, ports, @revoked and @cert-authority lines."""

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from nodegate.files.bounded import read_whole

MOST_BYTES = 64 << 20  # a hundred thousand nodes have a third of it
Kind = Literal["host", "cert-authority", "revoked"]
MARKERS: dict[str, Kind] = {"@cert-authority": "cert-authority", "@revoked": "revoked"}


def fingerprint(blob: bytes) -> str:
    """A public key as ssh shows it: SHA256:..."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class Entry:
    """One line: the key of hosts with these names. `origin` is file:line."""

    kind: Kind
    names: str
    key_type: str
    blob: bytes = field(repr=False)
    origin: str

    def covers(self, name: str) -> bool:
        """Whether the line names this host (`name` in lower case, `[name]:port` for another port than 22)."""
        if self.names.startswith("|1|"):
            try:
                _, _, salt, digest = self.names.split("|")
                return hmac.digest(base64.b64decode(salt), name.encode(), "sha1") == base64.b64decode(digest)
            except ValueError:  # the line is damaged
                return False
        matched = False
        for pattern in self.names.lower().split(","):
            if pattern.startswith("!"):
                if _wildcard(pattern[1:]).fullmatch(name):
                    return False
            elif pattern == name or (("*" in pattern or "?" in pattern) and _wildcard(pattern).fullmatch(name)):
                matched = True
        return matched


@lru_cache(maxsize=1024)
def _wildcard(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))


def parse(text: str, file: str) -> list[Entry]:
    """The entries of a file. Invalid lines are skipped, as in ssh."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        kind: Kind = "host"
        if words and words[0].startswith("@"):
            if (marker := MARKERS.get(words.pop(0))) is None:
                continue
            kind = marker
        if len(words) < 3 or words[0].startswith("#"):
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        entries.append(Entry(kind, words[0], words[1], blob, f"{file}:{number}"))
    return entries


@dataclass(frozen=True)
class KnownHosts:
    """The entries of a file: those of plain names by the name, the others to be tried one by one."""

    exact: dict[str, list[Entry]]
    others: list[Entry]

    def find(self, name: str) -> list[Entry]:
        """The lines that name a host."""
        return [*self.exact.get(name, ()), *(entry for entry in self.others if entry.covers(name))]


def load(files: Sequence[str]) -> list[KnownHosts]:
    """The existing known_hosts files. A file is parsed once, and again after a change."""
    found = []
    for file in files:
        try:
            found.append(_known(file, _stamp(Path(file).stat())))
        except OSError:  # noqa: PERF203 - a file or two
            continue
    return found


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def _known(file: str, stamp: tuple[int, int]) -> KnownHosts:  # noqa: ARG001 - a changed file is read again
    """The content of a file. A file that cannot be read has no entries, as in ssh."""
    known = KnownHosts({}, [])
    try:
        text = read_whole(file, MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return known
    for entry in parse(text, file):
        if re.search(r"[|*?!]", entry.names):
            known.others.append(entry)
        else:
            for name in entry.names.lower().split(","):
                known.exact.setdefault(name, []).append(entry)
    return known


def add(file: Path, name: str, key_type: str, blob: bytes) -> list[Entry]:
    """Append a host's key, one whole line, unless the file knows the host by now (another thread, another process).

    Returns:
        What the file says about the host afterwards.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "r+b", buffering=0) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        status = os.fstat(fd)
        if found := _known(str(file), _stamp(status)).find(name):
            return found
        line = f"{name} {key_type} {base64.b64encode(blob).decode()}\n".encode()
        whole = not status.st_size or os.pread(fd, 1, status.st_size - 1) == b"\n"
        handle.write(line if whole else b"\n" + line)
    return [Entry("host", name, key_type, blob, str(file))]
