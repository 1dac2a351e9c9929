"""The user's own program for a finding: it gets the line on its standard input."""

import os
import shlex
import signal
import subprocess
from contextlib import suppress

from nodegate.errors import UsageError

LIMIT_S = 30.0


def arguments(command: str) -> list[str]:
    """The program and its arguments; no shell interprets them.

    Raises:
        UsageError: the text cannot be split into words, or has none.
    """
    try:
        words = shlex.split(command)
    except ValueError as said:
        raise UsageError(f"--notice cannot be split into words: {said}", hint="quote it like a command line") from said
    if not words:
        raise UsageError(
            "--notice does not name a program", hint="for example --notice '/opt/site/page-oncall gpu-team'"
        )
    return words


def send(command: list[str], line: str, limit_s: float = LIMIT_S) -> str:
    """Runs the program; returns what went wrong in one line, or nothing. It never changes the result of the watch."""
    try:
        running = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as said:
        return f"notice was not sent: {command[0]}: {said}"
    try:
        running.communicate(f"{line}\n".encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return f"notice was not sent: {command[0]} took more than {limit_s:g} s"
    if running.returncode:
        return f"notice may not have been sent: {command[0]} ended with exit code {running.returncode}"
    return ""
