"""`nodegate hook`: its options, its line in the log, and the rule that failures of nodegate never block jobs."""

import argparse
import os
import syslog
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodegate.commands import output
from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, guard, hooks, passed, spool
from nodegate.hook.hooks import HookResult
from nodegate.scheduler import programs
from nodegate.text import visible

MODES = ("enforce", "observe")
_OF_ONE = {
    "--fresh": ("slurm-prolog",),
    "--exclusive": ("slurm-prolog", "slurm-epilog"),
    "--resume": ("slurm-healthcheck",),
    "--user": ("slurm-prolog",),
}
_HELP = {
    "slurm-prolog": "Prolog: drains an unfit node and ends with 1, so that Slurm requeues the job",
    "slurm-epilog": "Epilog: drains a node that is unfit after a job",
    "slurm-healthcheck": "HealthCheckProgram: drains an unfit node, also while jobs run",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """A command for each hook: it accepts all hooks' options, so a site configures them once; it shows its own."""
    commands = command.add_subparsers(required=True, metavar="HOOK", dest="hook")
    for hook in sorted(hooks.HOOKS):
        _add_options(commands.add_parser(hook, help=_HELP[hook], description=_HELP[hook]), hook)


def _add_options(command: argparse.ArgumentParser, hook: str) -> None:
    def option(name: str, *, text: str, **how: Any) -> None:
        shown = hook in _OF_ONE.get(name, (hook,))
        command.add_argument(name, help=text if shown else argparse.SUPPRESS, **how)

    option("--strict", action="store_true", text="block jobs also when nodegate could not tell")
    option(
        "--fresh",
        type=float,
        default=hooks.FRESH_S,
        metavar="SECONDS",
        text="maximum age of a cached verdict; 0: always measure (default %(default)g)",
    )
    option("--resume", action="store_true", text="resume a node that nodegate drained once it is fit")
    option(
        "--exclusive",
        action="store_true",
        text="jobs get whole nodes: what is left on a GPU makes the node unfit",
    )
    option(
        "--kept",
        type=Path,
        default=current_verdict.FILE,
        metavar="FILE",
        text="file of the verdict (default %(default)s)",
    )
    option("--mode", choices=MODES, default=MODES[0], text="observe: tell what would be done, and change nothing")
    option(
        "--breaker",
        type=percent,
        default=guard.PERCENT,
        metavar="PERCENT",
        text="of a partition that may be drained or resumed within 15 minutes, at least a node (default %(default)g)",
    )
    option("--gate", action="store_true", text="unfit with boards that no run has accepted (DIR/passed of --state)")
    option(
        "--state",
        type=Path,
        default=Path(passed.STATE),
        metavar="DIR",
        text="folder of what stays over a boot: the hooks' verdicts, what has passed (default %(default)s)",
    )
    option("--user", default="", metavar="LOGIN", text="who holds nodes for nodegate's runs: not checked")
    option("--baseline", action="append", default=[], type=Path, metavar="FILE", text="more baselines; repeatable")
    option("--platform", default="", metavar="NAME", text="the platform, instead of recognising it")
    option("--demands", type=Path, metavar="FILE", text="instead of /etc/nodegate/demands.yaml")


def percent(text: str) -> float:
    """A percentage above 0."""
    value = float(text)
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError("not a percentage above 0")
    return value


def run(asked: argparse.Namespace) -> int:
    """Run a hook, print its line and note it in the spool; returns the exit code that Slurm acts on."""
    said = decide(asked)
    try:
        print(said.line, flush=True)
    except OSError:  # the exit code says the same
        output.discard()
    with suppress(OSError, ValueError):  # a full disk or one that is read-only
        spool.note(asked.state, asked.hook, said)
    return said.exit


def decide(asked: argparse.Namespace) -> HookResult:
    """What the hook has decided and done; news also goes to the system log. Never raises."""
    observes = asked.mode == "observe"
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{programs.USUAL}".lstrip(":")
    try:
        question = current_verdict.Question(
            *(asked.kept, tuple(asked.baseline), asked.platform, asked.exclusive, asked.demands),
            gate=asked.state / passed.FILE if asked.gate else None,
        )
        rules = guard.Rules(observe=observes, percent=asked.breaker)
        wanted = hooks.HookOptions(question, asked.strict, asked.fresh, asked.resume, rules, asked.user)
        said = hooks.HOOKS[asked.hook](wanted)
    except Exception as fault:  # noqa: BLE001 - an internal error must never drain a node
        code = int(Exit.UNKNOWN) if asked.strict and not observes else 0
        said = HookResult(code, f"could not tell: nodegate failed ({type(fault).__name__}: {fault})")
    said = replace(said, line=visible(" ".join(said.line.split())))
    if said.is_news:
        syslog.openlog("nodegate", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_WARNING, f"{asked.hook}: {said.line}")
    return said
