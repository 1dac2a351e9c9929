"""A scheduler's own programs (scontrol, squeue, salloc), asked with a time limit: what they print, or why nothing."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

# Looked through after PATH: Slurm gives its hooks almost none.
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/usr/local/slurm/bin"
_MOST_SAID = 160  # characters of a refusal
_FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")


class NoAnswer(Exception):  # noqa: N818 - reads as the sentence that it raises
    """The scheduler refused or did not answer; the message says which program and why, `printed` what it printed."""

    def __init__(self, why: str, *, printed: str = "") -> None:
        self.printed = printed
        super().__init__(why)


def answer(
    program: str, *arguments: str, limit_s: float, environ: Mapping[str, str] | None = None, where: str = "here"
) -> str:
    """What a program prints.

    Args:
        program: its name, looked for in the PATH of `environ` and in the usual folders.
        arguments: its arguments; no shell sees them.
        limit_s: seconds after which it is ended.
        environ: its environment; by default this process's own.
        where: the machine in words, for a program that is missing.

    Raises:
        NoAnswer: it is missing, does not start, does not end in time, or fails.
    """
    environ = {**(os.environ if environ is None else environ)}
    environ["PATH"] = f"{environ.get('PATH', '')}:{USUAL}".lstrip(":")
    path = path_of(program, environ["PATH"])
    if path == program:
        raise NoAnswer(f"{program} is not installed {where}")
    try:
        done = subprocess.run(
            [path, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{program} did not answer within {limit_s:g} s") from None
    except OSError as error:
        raise NoAnswer(f"{program} did not start: {error.strerror}") from None
    if done.returncode != 0:
        printed = " ".join((done.stderr or done.stdout).split())[:_MOST_SAID]
        raise NoAnswer(f"{program}: exit code {done.returncode}: {printed}", printed=printed)
    return done.stdout


def path_of(program: str, path: str = "") -> str:
    """Where a program is, in a PATH (by default our own) or the usual folders; its name alone if nowhere."""
    return shutil.which(program, path=path or f"{os.environ.get('PATH', '')}:{USUAL}") or program


def fields(line: str) -> dict[str, str]:
    """The fields of a line of `scontrol -o`; of a name the first: Reason, Comment and Extra stand behind them."""
    found: dict[str, str] = {}
    for key, value in _FIELD.findall(line):
        found.setdefault(key, value.strip())
    return found
