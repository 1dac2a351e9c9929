"""The options of `nodegate watch`; see docs/guide/watch.md."""

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nodegate.notices.target import add_notice
from nodegate.watch.formats import FORMATS
from nodegate.watch.rule import LEAST
from nodegate.watch.silence import SILENCE_S, TIMES_USUAL

_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})([a-z%]{0,2})", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    log: Path
    once: bool = False
    running: bool = False
    stop: bool = False
    ratio: float = 0.0
    silence_s: float = SILENCE_S
    like: Path | None = None
    usual_s: float = 0.0
    mfu: float = 0.0
    platform: str = ""
    format: str = "auto"
    pattern: str = ""
    notice: tuple[str, ...] = ()
    lang: str = "en"
    json: bool = False
    html: Path | None = None


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.argument_default = argparse.SUPPRESS  # those of Asked
    add = command.add_argument
    add("log", type=Path, metavar="LOG", help="the job's log, plain or packed; - is standard input")
    add("--once", action="store_true", help="read what is there and end, instead of following the file")
    add("--running", action="store_true", help="with --once: the job should be running, an old file is silence")
    add("--stop", action="store_true", help="end at the first finding")
    add(
        "--ratio",
        type=_number("a ratio above 1, such as 1.2", 1.001, 100),
        metavar="R",
        help=f"nothing below R times the usual is slow (default {LEAST})",
    )
    add(
        "--silence",
        type=_number("a valid duration, such as 300, 5m or 1h", 1e-6, math.inf, s=1, m=60, h=3600),
        dest="silence_s",
        metavar="TIME",
        help=f"silent for this long counts (default 5m; at least {TIMES_USUAL} times the usual interval of the lines)",
    )
    add("--like", type=Path, metavar="EARLIER.log", help="log of an earlier run of the same job: its pace is usual")
    add(
        "--usual",
        type=_number("the time of an iteration, such as 3.1s or 850ms", 1e-9, 86400, s=1, ms=1e-3),
        dest="usual_s",
        metavar="TIME",
        help="usual time of an iteration (or token, if the log has only these), such as 3.1s or 850ms",
    )
    add(
        "--mfu",
        type=_number("a share in percent, such as 40", 1, 100, **{"%": 1}),
        metavar="PERCENT",
        help="the share of the GPUs' peak that this model usually reaches, such as 40: less is slow",
    )
    add("--platform", metavar="NAME", help="with --mfu: its bf16 peak, for logs that name only TFLOP/s")
    add("--format", choices=["auto", *FORMATS], help="read only lines of this format; steps: any trainer's")
    add("--pattern", metavar="REGEX", help="your own line: groups iteration and ms, s, per_s or elapsed")
    add_notice(command, "gets each finding")
    add("--lang", choices=["en", "zh"], help="the language of the notes")
    add("--json", action="store_true", help="one JSON object per line; the last is the answer")
    add("--html", type=Path, metavar="FILE", help="write the answer with a plot")


def from_arguments(arguments: argparse.Namespace) -> Asked:
    """The options of the command line."""
    given = {name: value for name, value in vars(arguments).items() if name in Asked.__dataclass_fields__}
    return Asked(**{**given, "notice": tuple(arguments.notice)})


def _number(what: str, least: float, most: float, **units: float) -> Callable[[str], float]:
    """Reads a number with one of these units behind it, or none, which is 1."""

    def read(text: str) -> float:
        found = _NUMBER.fullmatch(text)
        scale = {"": 1.0, **units}.get(found[2], math.nan) if found else math.nan
        value = float(found[1]) * scale if found else math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read
