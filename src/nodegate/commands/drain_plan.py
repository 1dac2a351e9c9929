"""`nodegate drain-plan`: the commands for Slurm that take out what a run rejected. They are printed, never run."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from nodegate.records.run import NodeReport
    from nodegate.report.model import Report

SCHEMA = "nodegate.drain-plan/1"
_LOOK = "look at sinfo -R first: a reason that a node has there would be replaced"


@dataclass(frozen=True)
class Drain:
    """Nodes that are taken out for the same reason; `names` is what Slurm calls them."""

    reason: str
    nodes: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def command(self) -> str:
        """One line for a shell, which takes every word of it as it is."""
        from nodegate.inventory.hostlist import fold  # noqa: PLC0415

        words = {"NodeName": fold(self.names), "State": "DRAIN", "Reason": self.reason}
        return " ".join(["scontrol update", *(f"{key}={shlex.quote(word)}" for key, word in words.items())])


@dataclass(frozen=True)
class Plan:
    """What to take out, what not although it is not accepted (node, verdict, why), and names that Slurm has not."""

    drains: tuple[Drain, ...]
    left: tuple[tuple[str, str, str], ...]
    renamed: tuple[tuple[str, str], ...]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder: reports/latest")
    command.add_argument("--json", action="store_true", help=f"one object, {SCHEMA}")


def run(asked: argparse.Namespace) -> int:
    """Print the plan; returns 0.

    Raises:
        UsageError: the run cannot be read.
    """
    from nodegate.records.run_folder import RunFolder  # noqa: PLC0415
    from nodegate.report.reader import load  # noqa: PLC0415
    from nodegate.run.conditions import read_earlier  # noqa: PLC0415
    from nodegate.scheduler.jobs import slurm_name  # noqa: PLC0415

    report = load(asked.run)
    names = {node.name: slurm_name(node) for node in read_earlier(RunFolder(asked.run)).nodes}
    found = plan(report, names)
    if asked.json:
        print(json.dumps(_document(report, found)))
        return 0
    for line in _lines(report, found):
        print(line)
    return 0


def plan(report: Report, names: Mapping[str, str]) -> Plan:
    """What to take out, by `names`: what Slurm calls each node of the run, empty where that is not known."""
    from nodegate.causes.lines import worst_in_short  # noqa: PLC0415
    from nodegate.hook.reason import reason  # noqa: PLC0415
    from nodegate.records.verdict import GOOD, NodeVerdict, Verdict  # noqa: PLC0415

    bearers = Counter(name for name in names.values() if name)
    by_reason: dict[str, list[str]] = {}
    left, renamed = [], []
    for node in report.nodes:
        name = names.get(node.node, "")
        failed = [
            cause for cause in report.node_causes[node.node] if cause.verdict is Verdict.FAIL and not cause.waiver
        ]
        if node.verdict in GOOD:
            continue
        if node.verdict is not NodeVerdict.REJECTED or not failed:
            left.append((node.node, node.verdict.value, _why_not(report, node)))
        elif not name:
            left.append((node.node, node.verdict.value, "what Slurm calls it is not known: set nodegate_slurm_name"))
        elif bearers[name] > 1:
            said = f"Slurm's {name} would be {bearers[name]} nodes of this run: set nodegate_slurm_name"
            left.append((node.node, node.verdict.value, said))
        else:
            by_reason.setdefault(reason(worst_in_short("unfit", failed)), []).append(node.node)
            renamed += [(node.node, name)] if name != node.node else []
    drains = (Drain(why, tuple(own), tuple(names[each] for each in own)) for why, own in by_reason.items())
    return Plan(tuple(drains), tuple(left), tuple(renamed))


def _why_not(report: Report, node: NodeReport) -> str:
    """Why nothing speaks for taking a node out, or too little."""
    from nodegate.causes.lines import line  # noqa: PLC0415

    causes = report.node_causes[node.node]
    said = node.unreachable or (line(causes[0]).text if causes else "")
    claims = [f"{each.claim} not proven: {each.why}" for each in node.unproven if not each.signed]
    return said or next(iter(claims), "") or "nothing failed on it"


def _lines(report: Report, found: Plan) -> Iterator[str]:
    """The plan as a script: all that is not a command is a comment."""
    from nodegate.text import counted, day_of  # noqa: PLC0415

    run, count = report.run, sum(len(each.nodes) for each in found.drains)
    cut = "; the run was interrupted" if run.interrupted else ""
    head = f"{run.id} ({run.profile}, {day_of(run.finished_epoch_s or run.started_epoch_s)}{cut})"
    yield _comment(f"{head}: {count} of {counted(len(report.nodes), 'node')} to drain. Nothing was changed.")
    if found.drains:
        yield _comment(_LOOK)
    yield from (_comment(f"{node} is {name} in Slurm") for node, name in found.renamed)
    yield from (each.command for each in found.drains)
    for what, nodes in _alike(found.left):
        yield _comment(f"not drained: {nodes}: {what}")


def _alike(left: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    from nodegate.inventory.hostlist import fold  # noqa: PLC0415

    same: dict[str, list[str]] = {}
    for node, verdict, why in left:
        same.setdefault(f"{verdict}: {why}", []).append(node)
    yield from ((what, fold(nodes)) for what, nodes in same.items())


def _comment(text: str) -> str:
    """One line, whatever a name or a reason holds."""
    from nodegate.text import visible  # noqa: PLC0415

    return f"# {visible(' '.join(text.split()))}"


def _document(report: Report, found: Plan) -> dict[str, object]:
    drains = [
        {"nodes": each.nodes, "slurm_names": each.names, "reason": each.reason, "command": each.command}
        for each in found.drains
    ]
    left = [{"node": node, "verdict": verdict, "why": why} for node, verdict, why in found.left]
    return {
        "schema": SCHEMA,
        "run": report.run.id,
        "profile": report.run.profile,
        "drain": drains,
        "not_drained": left,
        "renamed": dict(found.renamed),
    }
