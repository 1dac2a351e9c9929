"""What `ssh -G` says of hosts, asked once for all of them where the files of the configuration tell none apart.

A fleet would start one ssh for each node otherwise, a tenth of what a node without load costs the controller.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
import shlex
import threading
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.files.bounded import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Values = dict[str, list[str]]

SYSTEM_FILE = Path("/etc/ssh/ssh_config")
MOST_CONFIG_BYTES = 16 << 20
MOST_INCLUDES = 16  # of one in another, as ssh has it
_OF_THE_HOST = ("host", "hostname")  # of an answer; ssh before 9.2 prints no "host"
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_NAME = re.compile(r"[a-z][a-z0-9.-]*")  # what ssh takes as it is: no capitals, no other way to write an address

_asking = threading.Lock()
_common: dict[tuple[str, ...], Values | None] = {}  # by the arguments of ssh


def answer(host: str, words: Sequence[str], file: str, ask: Callable[[], Values]) -> Values:
    """The answer for a host: what `ask()` gives, or the one for another host with this one's name in its place.

    Args:
        host: as the user names it.
        words: the arguments of ssh without the host.
        file: of `-F` in these; empty if they have none.
        ask: asks ssh about this host.
    """
    if not _is_plain(host) or not _tells_no_host_apart(file):
        return ask()
    with _asking:  # the threads of a campaign come here at once
        key = tuple(words)
        if key not in _common:
            _common[key] = None  # also where ssh hangs or refuses: the others then ask for themselves, at once
            values = ask()
            _common[key] = values if _is_common(values, host) else None
            return values
        common = _common[key]
    if common is None:
        return ask()
    return common | {name: [host] for name in _OF_THE_HOST if name in common}


def _is_plain(host: str) -> bool:
    try:
        return bool(_NAME.fullmatch(host)) or str(IPv4Address(host)) == host
    except ValueError:
        return False


def _is_common(values: Values, host: str) -> bool:
    """Whether an answer holds for other hosts too: only its name is this host's."""
    rest = [value for name, found in values.items() if name not in _OF_THE_HOST for value in found]
    canonical = values.get("canonicalizehostname", ["false"])
    return values.get("hostname") == [host] and canonical == ["false"] and not any(host in value for value in rest)


@cache
def _tells_no_host_apart(file: str) -> bool:
    """Whether the configuration, or the `-F` file in its place, has no part that is for some hosts only."""
    own = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"  # ssh does not ask for $HOME
    if file:
        return file == "none" or _is_for_all(Path(file), own)
    return _is_for_all(own / "config", own) and _is_for_all(SYSTEM_FILE, SYSTEM_FILE.parent)


def _is_for_all(file: Path, included_from: Path, depth: int = 0) -> bool:
    try:
        lines = list(_lines(file))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    for keyword, values in lines:
        if keyword == "host" and values != ["*"]:
            return False
        if keyword == "match" or keyword.startswith("canonical"):
            return False
        if keyword == "include" and not _are_for_all(values, included_from, depth + 1):
            return False
    return True


def _are_for_all(patterns: Iterable[str], included_from: Path, depth: int) -> bool:
    if depth > MOST_INCLUDES or any(set(pattern) & set("~%$") for pattern in patterns):
        return False
    paths = [str(included_from / pattern) for pattern in patterns]  # an absolute pattern stays one
    names = [name for path in paths for name in glob.glob(path)]  # noqa: PTH207 - Path.glob takes no absolute one
    return all(_is_for_all(Path(name), included_from, depth) for name in names)


def _lines(file: Path) -> Iterator[tuple[str, list[str]]]:
    """The keywords of a file with their values; ValueError for a line that is not understood."""
    for line in read_whole(file, MOST_CONFIG_BYTES).decode("utf-8").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(line)
        yield found[1].lower(), shlex.split(found[2], comments=True)
