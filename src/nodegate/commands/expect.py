"""`nodegate expect`: what a site demands of its nodes (`nodegate_expect`), learned from a run that was signed off."""

import argparse
import sys
from pathlib import Path

from nodegate.errors import CannotMeasure, UsageError
from nodegate.files.strict_yaml import did_you_mean
from nodegate.judge.context import facts_of
from nodegate.learn.order import LearnedOrder, learn_order, seen
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import NodeVerdict
from nodegate.report.json_file import load
from nodegate.subjects.order_items import items
from nodegate.text import day_of


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    commands = command.add_subparsers(required=True, metavar="learn|items")
    learning = commands.add_parser("learn", help="nodegate_expect from a run's accepted nodes, on stdout, for review")
    learning.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    learning.add_argument("--platform", default="", metavar="NAME", help="which one, where the run has several")
    learning.set_defaults(part=_learn)
    listing = commands.add_parser("items", help="what can be demanded")
    listing.set_defaults(part=_items)


def run(asked: argparse.Namespace) -> int:
    """Run the command; returns its exit code.

    Raises:
        UsageError: a run that cannot be read, or nothing to learn from.
    """
    sys.stdout.write(asked.part(asked))
    return 0


def _learn(asked: argparse.Namespace) -> str:
    learned = learn_from(asked.run, asked.platform)
    for line in learned.left_out:
        print(f"nodegate: {line}", file=sys.stderr)
    return learned.text


def learn_from(folder: Path, platform: str = "") -> LearnedOrder:
    """What the accepted nodes of a run, of one platform, have in common.

    Raises:
        UsageError: the run cannot be read, has several platforms, or has nothing to learn from.
    """
    evidence, report = RunFolder.existing(folder), load(folder)
    good = {node.node: node.platform for node in report.nodes if node.verdict is NodeVerdict.ACCEPTED}
    platforms = sorted(set(good.values()))
    if not platform and len(platforms) > 1:
        raise UsageError(f"this run has several platforms ({', '.join(platforms)})", hint="add --platform NAME")
    platform = platform or "".join(platforms)
    if good and platform not in good.values():
        raise UsageError(f"no accepted node of platform {platform!r}", hint=did_you_mean(platform, set(good.values())))
    nodes = {}
    for name in (name for name in good if good[name] == platform):
        facts = evidence.read_evidence(name)
        try:
            nodes[name] = seen(facts_of(facts)) if facts else {}
        except CannotMeasure as why:
            raise UsageError(f"{name}: {why.reason}", file=str(folder)) from None
    return learn_order(nodes, platform=platform, run=report.run.id, date=day_of(report.run.started_epoch_s))


def _items(_: argparse.Namespace) -> str:
    rows = ((item.key, item.about.value, f"{item.sort.value} {item.unit}".strip()) for item in items().values())
    return "".join(f"{key:<16} {about:<9} {sort}\n" for key, about, sort in rows)
