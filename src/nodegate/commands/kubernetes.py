"""`nodegate kubernetes`: a run's verdicts on the nodes of a cluster; the pods of a job, their nodes and ranks."""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from nodegate.commands.hook import MODES, percent
from nodegate.engines.context import HELP, OPTION, Context
from nodegate.errors import UsageError
from nodegate.hook.guard import NOT_DONE, OPEN, PERCENT, Rules

SCHEMA = "nodegate.kubernetes-verdict/1"
DONE, BREAKER_OPEN, CANNOT = 0, 1, 2
_DAY_S = 86400.0


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    commands = command.add_subparsers(required=True, metavar="WHAT", dest="what")
    about = "write what a run says of each node: condition NodegateUnfit, an event of each change, taints"
    verdict = commands.add_parser("verdict", help=about, description=about)
    option = verdict.add_argument
    option("run", type=Path, metavar="RUN", help="a run folder: reports/latest")
    option("--mode", choices=MODES, default=MODES[1], help="enforce: taint too; observe (default): say what would be")
    option(
        "--breaker",
        type=percent,
        default=PERCENT,
        metavar="PERCENT",
        help="of the nodes of a kind, and of all, that may have nodegate's taint, at least one (default %(default)g)",
    )
    option("--valid", type=float, default=7.0, metavar="DAYS", help="how long a run counts (default %(default)g)")
    option(OPTION, action=Context, metavar="NAME", help=HELP)
    option("--json", action="store_true", help=f"one object, {SCHEMA}")
    verdict.set_defaults(of_kubernetes=_verdict)
    about = "the pods of a job, by the labels of JobSet, Kubeflow, Volcano, LeaderWorkerSet, Job: POD,NODE,RANK a line"
    job = commands.add_parser("job", help=about, description=about)
    job.add_argument("job", metavar="[NAMESPACE/]NAME", help="the job; with its namespace where two have the name")
    job.add_argument(OPTION, action=Context, metavar="NAME", help=HELP)
    job.set_defaults(of_kubernetes=_job)


def run(asked: argparse.Namespace) -> int:
    """Returns what the command under it says.

    Raises:
        UsageError: there is no cluster, or what is named cannot be read.
    """
    return int(asked.of_kubernetes(asked))


def _job(asked: argparse.Namespace) -> int:
    from nodegate.engines.kubernetes.api import connect  # noqa: PLC0415
    from nodegate.engines.kubernetes.members import members  # noqa: PLC0415

    for each in members(connect(), asked.job):
        print(each.pod, each.node, "" if each.rank is None else each.rank, sep=",")
    return DONE


def _verdict(asked: argparse.Namespace) -> int:
    """Write; returns 0 done, 1 the breaker left unfit nodes without a taint, 2 something could not be written.

    Raises:
        UsageError: the run cannot be read, or there is no cluster.
    """
    from nodegate.engines.kubernetes.api import Refused, connect  # noqa: PLC0415
    from nodegate.engines.kubernetes.verdict import words  # noqa: PLC0415
    from nodegate.engines.kubernetes.write import Writer  # noqa: PLC0415
    from nodegate.inventory.hostlist import fold  # noqa: PLC0415
    from nodegate.report.json_file import load  # noqa: PLC0415

    report = load(asked.run)
    if report.run.evidence:
        raise UsageError(report.run.evidence, file=str(asked.run), hint="name the run that measured the nodes")
    api = connect()
    rules = Rules(observe=asked.mode == "observe", percent=asked.breaker)
    try:
        done = list(Writer(api, rules).write(words(report, asked.valid * _DAY_S, time.time())))
    except Refused as said:
        print(f"nodegate: nothing was written: {said}", file=sys.stderr)
        return CANNOT
    codes = Counter(each.code for each in done)
    if asked.json:
        print(json.dumps({"schema": SCHEMA, "run": report.run.id, "done": [asdict(each) for each in done]}))
    else:
        nodes: dict[str, list[str]] = {}  # a line for all of which the same is said
        for each in done:
            nodes.setdefault(each.words, []).append(each.node)
        print("\n".join(f"{fold(names)}: {what}" for what, names in nodes.items()) or "nothing has changed")
    return CANNOT if codes[NOT_DONE] else BREAKER_OPEN if codes[OPEN] else DONE
