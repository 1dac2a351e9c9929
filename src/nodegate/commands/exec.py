"""`nodegate exec`: one command on all nodes, equal outputs folded; with --stacks, where a hanging job's ranks are."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from nodegate.engines import context as kube
from nodegate.errors import CannotMeasure, UsageError
from nodegate.everywhere import fold
from nodegate.everywhere.ask import Whom, ask_all, whom
from nodegate.measure.durations import seconds
from nodegate.node import Node
from nodegate.run.settings import Settings
from nodegate.scheduler.jobs import job_of
from nodegate.transport import Options, Output, Session

SCHEMA = "nodegate.exec/1"
MOST_KIB = 64 << 10
LEAST_STACKS_S = 10.0
ALL_WELL, NOT_ALL, NOBODY = 0, 1, 2


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command; all after `--` is what runs on the nodes."""
    command.usage = "nodegate exec [options] -- COMMAND [ARGUMENT ...]"
    option = command.add_argument
    text = "the nodes, as for a run; without it nodes are reached by `ssh NAME`"
    option("--inventory", action="append", default=[], metavar="FILE|HOST,HOST|-", help=text)
    option("--nodes", default="", metavar="PATTERN", help="a subset: gpu[001-128], gpu:!gpu005:&rack1, a group")
    option("--job", default="", metavar="ID", help="the nodes on which this job of Slurm runs")
    option("--stacks", action="store_true", help="in place of a command: the Python stacks of a job's ranks, by py-spy")
    option("--tools", type=Path, metavar="DIR", help="where py-spy is; it is brought to the nodes and removed again")
    option("--limit", default="60s", metavar="TIME", help="for each node (default %(default)s)")
    text = "kept of each of a node's two streams (default %(default)s)"
    option("--output-kib", type=int, default=1024, metavar="N", help=text)
    option("--json", action="store_true", help=f"one object, {SCHEMA}")
    option(kube.OPTION, action=kube.Context, metavar="NAME", help=kube.HELP)
    option("--host-keys", choices=["strict", "accept-new", "off"], help="how to treat unknown SSH host keys")
    option("--known-hosts", type=Path, metavar="FILE", help="host keys of this project, in addition to the user's own")
    option("--openssh-config", type=Path, metavar="FILE", help="SSH configuration instead of ~/.ssh/config")
    option("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="one word is a line for sh, several are not")


def run(asked: argparse.Namespace) -> int:
    """Ask the nodes and print what they answer.

    Returns 0 where the command ended with 0 on all nodes (the stacks of all ranks are alike), 1 where not, 2 where no
    node was reached.

    Raises:
        UsageError: there is no command, no node, or an option is wrong.
    """
    words = asked.words[1:] if asked.words[:1] == ["--"] else asked.words
    limit_s = seconds(asked.limit, "--limit")
    _check(asked, words, limit_s)
    ssh = {"host_keys": asked.host_keys, "known_hosts": asked.known_hosts, "ssh_config": asked.openssh_config}
    Settings(**ssh).check()
    job = job_of(asked.job) if asked.job else None
    chosen = whom(asked.inventory, asked.nodes, job, sys.stdin)
    for note in chosen.notes:
        print(f"note: {note}", file=sys.stderr)
    document = {"schema": SCHEMA, "command": words, "limit_s": limit_s}
    if asked.stacks:
        return _stacks(asked, chosen, Options(**ssh), document, job.numbers if job else ())

    def ask(session: Session) -> Output:
        argv, most = ["sh", "-c", words[0]] if len(words) == 1 else words, asked.output_kib << 10
        return session.run(argv, timeout_s=limit_s, as_root=session.node.connection.become, max_output_bytes=most)

    found = _groups(chosen, ask_all(chosen.nodes, Options(**ssh), ask), limit_s)
    is_well = all(answer.exit_code == 0 for _, answer in found)
    code = ALL_WELL if is_well else NOT_ALL if any(answer.is_reached for _, answer in found) else NOBODY
    return _print(asked, document | {"groups": _rows(found)}, fold.lines(found, asked.output_kib), code)


def _check(asked: argparse.Namespace, words: Sequence[str], limit_s: float) -> None:
    if asked.stacks and words:
        raise UsageError("--stacks runs py-spy: give no command with it")
    if not asked.stacks and not words:
        raise UsageError("there is no command", hint="nodegate exec --inventory hosts.yaml -- uptime")
    if asked.tools and not asked.stacks:
        raise UsageError("--tools is for --stacks", hint="name the program's path on the nodes, or a shared folder")
    if not 1 <= asked.output_kib <= MOST_KIB:
        raise UsageError(f"--output-kib {asked.output_kib}: not from 1 to {MOST_KIB}")
    if asked.stacks and limit_s < LEAST_STACKS_S:
        raise UsageError(f"--limit {asked.limit}: --stacks needs {LEAST_STACKS_S:g} s at least")


def _stacks(
    asked: argparse.Namespace, chosen: Whom, options: Options, document: dict[str, object], jobs: Sequence[str]
) -> int:
    from nodegate.everywhere.stacks import Stacks, asker  # noqa: PLC0415
    from nodegate.toolbox.carried import Carried  # noqa: PLC0415

    limit_s = seconds(asked.limit, "--limit")
    told = ask_all(chosen.nodes, options, asker(Carried(asked.tools) if asked.tools else None, jobs, limit_s))
    found = Stacks(given for _, given in told if not isinstance(given, CannotMeasure))
    lost = _groups(chosen, [(node, given) for node, given in told if isinstance(given, CannotMeasure)], limit_s)
    is_well = len(found.groups) == 1 and not (lost or found.unread or found.missing)
    code = ALL_WELL if is_well else NOT_ALL if found.groups else NOBODY
    has_answer = any(not isinstance(given, CannotMeasure) for _, given in told)
    lines = [*(fold.lines(lost, 0) if lost else ()), *(found.lines() if has_answer else ())]
    document |= {"command": ["py-spy", "dump"], "groups": _rows(lost), "stacks": found.as_json()}
    return _print(asked, document, lines, code)


def _groups(chosen: Whom, answers: Iterable[tuple[Node, Output | CannotMeasure]], limit_s: float) -> list[fold.Group]:
    """The groups; nodes of the job that the inventory lacks are one of them."""
    step = "add it there, or leave --inventory out"
    absent = fold.Answer(fold.NOT_REACHED, reason=f"the inventory does not have it - {step}")
    rows = [(node.name, fold.answer_of(node, given, limit_s)) for node, given in answers]
    return fold.groups([*rows, *((name, absent) for name in chosen.absent)])


def _rows(found: Iterable[fold.Group]) -> list[dict[str, object]]:
    return [{"nodes": nodes, **asdict(answer)} for nodes, answer in found]


def _print(asked: argparse.Namespace, document: dict[str, object], lines: Iterable[str], code: int) -> int:
    for line in [json.dumps({**document, "exit_code": code})] if asked.json else lines:
        print(line)
    return code
