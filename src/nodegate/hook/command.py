"""`nodegate hook`: its options, its line in the log, and the promise that a fault of ours never stops work."""

from __future__ import annotations

import os
import syslog
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.exit_codes import Exit
from nodegate.hook import hooks, kept, look, slurm
from nodegate.hook.hooks import Said
from nodegate.text import visible

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options. All hooks take all of them, so that a site writes them down once."""
    command.add_argument("hook", choices=sorted(hooks.HOOKS))
    command.add_argument("--strict", action="store_true", help="stop work also when nodegate could not tell")
    command.add_argument(
        "--fresh",
        type=float,
        default=hooks.FRESH_S,
        metavar="SECONDS",
        help="slurm-prolog: how old a kept verdict may be; 0: always measure (default %(default)g)",
    )
    command.add_argument("--resume", action="store_true", help="slurm-healthcheck: take back a drain of ours when fit")
    command.add_argument(
        "--exclusive",
        action="store_true",
        help="jobs have whole nodes: what still holds a GPU in prolog and epilog was left there, and counts",
    )
    command.add_argument("--kept", type=Path, default=kept.FILE, metavar="FILE", help="verdict (default %(default)s)")
    command.add_argument("--baseline", action="append", default=[], type=Path, metavar="FILE", help="more baselines")
    command.add_argument("--platform", default="", metavar="NAME", help="the platform, instead of finding it")


def run(asked: argparse.Namespace) -> Said:
    """Run a hook; what is news goes to the system's log too. Never raises."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{slurm.PATH}".lstrip(":")
    try:
        question = look.Question(asked.kept, tuple(asked.baseline), asked.platform, asked.exclusive)
        wanted = hooks.Asked(question, asked.strict, asked.fresh, asked.resume)
        said = hooks.HOOKS[asked.hook](wanted)
    except Exception as fault:  # noqa: BLE001 - a fault of ours must never drain a node
        code = int(Exit.UNKNOWN) if asked.strict else 0
        said = Said(code, f"could not tell: nodegate failed ({type(fault).__name__}: {fault})")
    said = Said(said.exit, visible(" ".join(said.line.split())), said.is_news)
    if said.is_news:
        syslog.openlog("nodegate", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, f"{asked.hook}: {said.line}")
    return said
