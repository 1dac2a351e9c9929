"""`nodegate drain-plan`: the scheduler's commands that take out what a run rejected. They are printed, never run."""

import argparse
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nodegate.causes.lines import line, worst_in_short
from nodegate.engines.registry import DRAINS, ENGINES, SCHEDULER
from nodegate.hook.slurm import reason
from nodegate.inventory.hostlist import fold
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.run.conditions import read_earlier
from nodegate.scheduler.jobs import slurm_name
from nodegate.text import counted, day_of, visible

SCHEMA = "nodegate.drain-plan/1"


@dataclass(frozen=True)
class Drain:
    """Nodes that are taken out for the same reason; `names` is what `engine` calls them, `command` for a shell."""

    nodes: tuple[str, ...]
    names: tuple[str, ...]
    reason: str
    command: str
    engine: str = SCHEDULER


@dataclass(frozen=True)
class Left:
    """A node that is not accepted and not taken out."""

    node: str
    verdict: str
    why: str


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder: reports/latest")
    command.add_argument("--json", action="store_true", help=f"one object, {SCHEMA}")


def run(asked: argparse.Namespace) -> int:
    """Print the plan; returns 0.

    Raises:
        UsageError: the run cannot be read.
    """
    report = load(asked.run)
    earlier = read_earlier(RunFolder(asked.run))
    ways = {entry.name: entry.transport for entry in earlier.run.nodes if entry.transport in ENGINES}
    names = {node.name: slurm_name(node) for node in earlier.nodes}
    names |= {name: name for name, way in ways.items() if way != SCHEDULER}
    drains, left = plan(report, names, ways)
    document = {"schema": SCHEMA, "run": report.run.id, "profile": report.run.profile}
    rows = {"drain": [asdict(each) for each in drains], "not_drained": [asdict(each) for each in left]}
    for text in [json.dumps(document | rows)] if asked.json else lines(report, drains, left):
        print(text)
    return 0


def plan(
    report: Report, names: Mapping[str, str], ways: Mapping[str, str] | None = None
) -> tuple[list[Drain], list[Left]]:
    """What to take out, by `names`: what the scheduler calls each node of the run, empty where that is not known.

    `ways` has the engines of nodes; the others are Slurm's.
    """
    ways, bearers, left = ways or {}, Counter(names.values()), list[Left]()
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for node in report.nodes:
        name = names.get(node.node, "")
        failed = [each for each in report.node_causes[node.node] if each.verdict is Verdict.FAIL and not each.waiver]
        if node.verdict in GOOD:
            continue
        if node.verdict is not NodeVerdict.REJECTED or not failed:
            causes = [line(each).text for each in report.node_causes[node.node]]
            claims = [f"{each.claim} not proven: {each.why}" for each in node.unproven if not each.signed]
            said = next(filter(None, (node.unreachable, *causes, *claims)), "nothing failed on it")
            left.append(Left(node.node, node.verdict.value, said))
        elif not name or bearers[name] > 1:
            said = f"Slurm's {name} would be {bearers[name]} nodes of this run" if name else "Slurm's name is not known"
            left.append(Left(node.node, node.verdict.value, f"{said}: set nodegate_slurm_name"))
        else:
            way, why = ways.get(node.node, SCHEDULER), reason(worst_in_short("unfit", failed))
            by_reason.setdefault((way, why, failed[0].condition), []).append(node.node)
    drains = []
    for (way, why, cause), nodes in by_reason.items():
        own = tuple(names[node] for node in nodes)
        words = {"folded": fold(own), "reason": why, "cause": cause}
        quoted = {key: shlex.quote(word) for key, word in words.items()}  # one word each
        command = DRAINS[way][0].format(names=shlex.join(own), **quoted)
        drains.append(Drain(tuple(nodes), own, why, command, way))
    return drains, left


def lines(report: Report, drains: list[Drain], left: list[Left]) -> Iterator[str]:
    """The plan as a script: all that is not a command is a comment."""
    run, count = report.run, sum(len(each.nodes) for each in drains)
    cut = "; the run was interrupted" if run.interrupted else ""
    head = f"{run.id} ({run.profile}, {day_of(run.finished_epoch_s or run.started_epoch_s)}{cut})"
    yield _comment(f"{head}: {count} of {counted(len(report.nodes), 'node')} to drain. Nothing was changed.")
    yield from (_comment(DRAINS[way][1]) for way in dict.fromkeys(each.engine for each in drains))
    for each in drains:
        renamed = [f"{node} is {name}" for node, name in zip(each.nodes, each.names, strict=True) if node != name]
        yield from (_comment(f"{text} in Slurm") for text in renamed)
        yield each.command
    alike: dict[str, list[str]] = {}
    for one in left:
        alike.setdefault(f"{one.verdict}: {one.why}", []).append(one.node)
    yield from (_comment(f"not drained: {fold(nodes)}: {what}") for what, nodes in alike.items())


def _comment(text: str) -> str:
    """One line, whatever a name or a reason holds."""
    return f"# {visible(' '.join(text.split()), most=1 << 16)}"
