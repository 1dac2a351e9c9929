"""A node's state in Slurm, and how nodegate changes it: scontrol, with a time limit on each call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

LIMIT_S = 5.0
# Slurm gives its hooks almost no PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/usr/local/slurm/bin"
OURS = "nodegate:"  # how nodegate's reasons begin

_DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING"})
# Down, failed, or changing its power state or rebooting: someone else handles it.
_NOT_IN_SERVICE = re.compile(r"DOWN|FAIL|ERROR|FUTURE|POWER|REBOOT_ISSUED|UNKNOWN")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # not a hostlist: that would be many nodes
_SIGNED = re.compile(r" \[[^\[\]]*@[^\[\]]*\]$")  # " [root@2026-11-21T17:10:00]"


class NoAnswer(Exception):  # noqa: N818 - reads as the sentence that it raises
    """Slurm refused or did not answer; the message has what it printed."""


@dataclass(frozen=True)
class Node:
    """A node as Slurm sees it."""

    states: frozenset[str]
    reason: str

    @property
    def is_drained(self) -> bool:
        """Gets no new jobs."""
        return bool(self.states & _DRAIN)

    @property
    def is_ours(self) -> bool:
        """The reason is from nodegate."""
        return self.reason.startswith(OURS)

    @property
    def not_in_service(self) -> str:
        """The state in which someone else handles it; empty for none."""
        return next((state for state in sorted(self.states) if _NOT_IN_SERVICE.search(state)), "")


def node(name: str) -> Node:
    """The state of a node in Slurm.

    Raises:
        NoAnswer: Slurm did not answer.
    """
    return parse(_scontrol("show", "node", _checked(name)))


def parse(text: str) -> Node:
    """The state in the output of `scontrol show node NAME`.

    Raises:
        NoAnswer: it has no state.
    """
    lines = [line.strip() for line in text.splitlines()]
    states = next((line.split()[0].partition("=")[2] for line in lines if line.startswith("State=")), "")
    if not states:
        raise NoAnswer("scontrol show node printed no state")
    reason = next((line.partition("=")[2] for line in lines if line.startswith("Reason=")), "")
    return Node(frozenset(re.findall(r"[A-Z_]+", states)), _SIGNED.sub("", reason))


def drain(name: str, reason: str) -> None:
    """Drain the node: its jobs end, and no new ones start.

    Raises:
        NoAnswer: Slurm did not.
    """
    _scontrol("update", f"nodename={_checked(name)}", "state=drain", f"reason={reason}")


def undrain(name: str) -> None:
    """Resume the node.

    Raises:
        NoAnswer: Slurm did not.
    """
    _scontrol("update", f"nodename={_checked(name)}", "state=undrain")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise NoAnswer(f"{name[:40]!r} is not a valid node name")
    return name


def _scontrol(*arguments: str) -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{PATH}".lstrip(":")}
    program = shutil.which("scontrol", path=environment["PATH"])
    if program is None:
        raise NoAnswer("scontrol is not installed on this node")
    try:
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"scontrol did not answer within {LIMIT_S:g} s") from None
    except OSError as error:
        raise NoAnswer(f"scontrol did not start: {error.strerror}") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:160]
        raise NoAnswer(f"scontrol: exit code {done.returncode}: {said}")
    return done.stdout
