"""`nodegate exec`: one command on all nodes, equal outputs folded; with --stacks, where a hanging job's ranks are."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.everywhere.fold import Group
    from nodegate.everywhere.stacks import OnNode
    from nodegate.everywhere.whom import Whom
    from nodegate.node import Node
    from nodegate.transport import Options, Output, Session

SCHEMA = "nodegate.exec/1"
LIMIT, KIB = "60s", 1024
MOST_KIB = 64 << 10
LEAST_STACKS_S = 10.0
_ALL_WELL, _NOT_ALL, _NOBODY = 0, 1, 2


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
    option("--limit", default=LIMIT, metavar="TIME", help="for each node (default %(default)s)")
    text = "kept of each of a node's two streams (default %(default)s)"
    option("--output-kib", type=int, default=KIB, metavar="N", help=text)
    option("--json", action="store_true", help=f"one object, {SCHEMA}")
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
    from nodegate.everywhere.whom import whom  # noqa: PLC0415
    from nodegate.measure.durations import seconds  # noqa: PLC0415
    from nodegate.run.settings import Settings  # noqa: PLC0415
    from nodegate.transport import Options  # noqa: PLC0415

    words = asked.words[1:] if asked.words[:1] == ["--"] else asked.words
    limit_s = seconds(asked.limit, "--limit")
    _check(asked, words, limit_s)
    Settings(host_keys=asked.host_keys, known_hosts=asked.known_hosts, ssh_config=asked.openssh_config).check()
    options = Options(host_keys=asked.host_keys, known_hosts=asked.known_hosts, ssh_config=asked.openssh_config)
    chosen = whom(asked.inventory, asked.nodes, asked.job, sys.stdin)
    for note in chosen.notes:
        print(f"note: {note}", file=sys.stderr)
    if asked.stacks:
        return _stacks(asked, chosen, options, limit_s)
    return _command(asked, chosen, options, words, limit_s)


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


def _command(asked: argparse.Namespace, chosen: Whom, options: Options, words: Sequence[str], limit_s: float) -> int:
    from nodegate.everywhere import fold  # noqa: PLC0415
    from nodegate.everywhere.ask import ask_all  # noqa: PLC0415

    argv = ["sh", "-c", words[0]] if len(words) == 1 else words
    most = asked.output_kib << 10

    def ask(session: Session) -> Output:
        return session.run(argv, timeout_s=limit_s, as_root=session.node.connection.become, max_output_bytes=most)

    answers = [(node, fold.answer_of(node, given, limit_s)) for node, given in ask_all(chosen.nodes, options, ask)]
    found = _with_absent(chosen, answers)
    code = _code(found)
    if asked.json:
        _print_json(words, limit_s, code, [fold.as_json(group) for group in found], fold.counts_in_words(found))
    else:
        for line in fold.lines(found, most):
            print(line)
    return code


def _stacks(asked: argparse.Namespace, chosen: Whom, options: Options, limit_s: float) -> int:
    from nodegate.everywhere import fold, stacks  # noqa: PLC0415
    from nodegate.everywhere.ask import ask_all  # noqa: PLC0415
    from nodegate.toolbox.carried import Carried  # noqa: PLC0415

    carried = Carried(asked.tools) if asked.tools else None
    ask: Callable[[Session], OnNode] = stacks.asker(carried, chosen.job.numbers if chosen.job else (), limit_s)
    asked_nodes = ask_all(chosen.nodes, options, ask)
    told = [given for _, given in asked_nodes if not isinstance(given, CannotMeasure)]
    found = stacks.Stacks([rank for each in told for rank in each.ranks], sum(each.hidden for each in told))
    lost = [
        (node, fold.answer_of(node, given, limit_s)) for node, given in asked_nodes if isinstance(given, CannotMeasure)
    ]
    groups = _with_absent(chosen, lost)
    is_well = len(found.groups) == 1 and not (groups or found.unread or found.missing)
    code = _NOBODY if not found.groups else _ALL_WELL if is_well else _NOT_ALL
    if asked.json:
        rows = [fold.as_json(group) for group in groups]
        _print_json(["py-spy", "dump"], limit_s, code, rows, "", stacks=stacks.as_json(found))
        return code
    for line in [*(fold.lines(groups, 0) if groups else ()), *(stacks.lines(found) if found.ranks else ())]:
        print(line)
    if told and not found.ranks:
        print(_no_ranks(chosen, found.hidden))
    return code


def _no_ranks(chosen: Whom, hidden: int) -> str:
    what = f"no Python process of job {chosen.job.id}" if chosen.job else "no Python process with a RANK or a GPU"
    more = f"; {hidden} of other users could not be looked at (log in as root, or set ansible_become)" if hidden else ""
    return f"{what} was found{more}"


def _with_absent(chosen: Whom, answers: Sequence[tuple[Node, object]]) -> list[Group]:
    """The groups; nodes of the job that the inventory lacks are one of them."""
    from nodegate.everywhere.fold import NOT_REACHED, Answer, groups  # noqa: PLC0415

    step = "add it there, or leave --inventory out"
    absent = Answer(NOT_REACHED, reason="the inventory does not have it", next_step=step)
    rows = [(node.name, answer) for node, answer in answers]
    return groups([*rows, *((name, absent) for name in chosen.absent)])  # type: ignore[list-item]


def _code(found: Sequence[Group]) -> int:
    if not any(group.answer.is_reached for group in found):
        return _NOBODY
    return _ALL_WELL if all(group.answer.exit_code == 0 for group in found) else _NOT_ALL


def _print_json(
    words: Sequence[str], limit_s: float, code: int, groups: list[dict[str, object]], counts: str, **more: object
) -> None:
    head = {"schema": SCHEMA, "command": list(words), "limit_s": limit_s, "exit_code": code, "counts": counts}
    print(json.dumps({**head, "groups": groups, **more}, ensure_ascii=True))
