"""The user's own program: it gets the text of a notice on its standard input."""

import os
import shlex
import signal
import subprocess
from contextlib import suppress

from nodegate.notices.message import Notice
from nodegate.notices.target import NotSent, Target

LIMIT_S = 30.0


def send(target: Target, notice: Notice, limit_s: float = LIMIT_S) -> None:
    """Run the program; NotSent if it could not be started, took too long, or ended with another exit code than 0."""
    command = shlex.split(target.address)
    try:
        running = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as said:
        why = getattr(said, "strerror", None) or type(said).__name__
        raise NotSent(f"notice was not sent: {command[0]}: {why}") from said
    try:
        running.communicate(f"{notice.text}\n".encode("utf-8", "backslashreplace"), timeout=limit_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        raise NotSent(f"notice was not sent: {command[0]} took more than {limit_s:g} s") from None
    if running.returncode:
        raise NotSent(f"notice may not have been sent: {command[0]} ended with exit code {running.returncode}")
