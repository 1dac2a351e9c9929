"""`nodegate baseline`: learn a baseline from a run, show the limits that apply, and compare two files."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baseline, Baselines
from nodegate.baseline.baseline_file import EVERYWHERE
from nodegate.baseline.entry import Entry
from nodegate.baseline.parameters import shown as conditions_shown
from nodegate.errors import NotJudged, UsageError
from nodegate.files.strict_yaml import did_you_mean
from nodegate.judge.waivers import Waivers
from nodegate.learn.diff import diff
from nodegate.learn.learn import Learned, LearnedFrom, learn
from nodegate.numbers.comparison import Margins, shown
from nodegate.records.run import Run
from nodegate.records.run_folder import RunFolder
from nodegate.report.json_file import load
from nodegate.run.conditions import read_earlier
from nodegate.run.judging import Judging
from nodegate.run.run_evidence import RunEvidence
from nodegate.text import day_of

Answer = tuple[list[str], int]  # the lines to print, the exit code

SAME, DIFFERENT, NOT_COMPARED = 0, 1, 2  # as diff(1)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    commands = command.add_subparsers(required=True, metavar="learn|show|diff")
    learning = commands.add_parser("learn", help="a baseline file from a run's accepted nodes, for review")
    learning.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    learning.add_argument("--out", type=Path, default=None, metavar="FILE", help="default: <platform>-<run>.yaml here")
    learning.set_defaults(part=_learn)
    showing = commands.add_parser("show", help="the limits of a platform, with their sources")
    showing.add_argument("platform", nargs="?", default="", metavar="PLATFORM", help="default: list the platforms")
    showing.set_defaults(part=_show)
    for each in (learning, showing):
        each.add_argument("--baseline", action="append", default=[], type=Path, metavar="FILE", help="more baselines")
    comparing = commands.add_parser(
        "diff", help="two baseline files, key by key; exit 0 same, 1 different, 2 not comparable"
    )
    comparing.add_argument("one", type=Path, metavar="A", help="a baseline file")
    comparing.add_argument("other", type=Path, metavar="B", help="the file to compare it with")
    comparing.set_defaults(part=_diff)


def run(asked: argparse.Namespace) -> int:
    """Run the command; returns its exit code.

    Raises:
        UsageError: a file or run that cannot be read, or nothing to learn from.
    """
    lines, code = asked.part(asked)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(code)


def _learn(asked: argparse.Namespace) -> Answer:
    lines = []
    for learned, file in learn_from(asked.run, asked.out, asked.baseline):
        lines.append(f"{file}: {len(learned.entries)} limits of {learned.platform}")
        lines += [f"  {remark}" for remark in learned.remarks]
    return [*lines, "review it, then use it: pytest --inventory hosts.yaml --baseline FILE"], 0


def learn_from(folder: Path, out: Path | None, more: Sequence[Path]) -> list[tuple[Learned, Path]]:
    """Learn from a run, and write a file for each platform.

    Raises:
        UsageError: the run cannot be read or has nothing to learn from, or a file exists already.
    """
    baselines = Baselines.read(more)
    run, good = measured_by_good_nodes(folder, baselines)
    known = {name: {**baselines.common, **platform.limits} for name, platform in baselines.platforms.items()}
    try:
        margins = {name: Margins.of(Baseline(name, "", "", "", "", entries)) for name, entries in known.items()}
    except NotJudged as said:
        raise UsageError(f"cannot learn: {said}") from None
    found = learn(good, margins, run=run.id, date=day_of(run.started_epoch_s), known=known)
    if out is not None and len(found) > 1:
        names = ", ".join(learned.platform for learned in found)
        raise UsageError(
            f"this run has several platforms ({names}): one file cannot describe them", hint="leave out --out"
        )
    files = [out or Path(f"{learned.platform}-{run.id}.yaml") for learned in found]
    for learned, file in zip(found, files, strict=True):
        _write(file, learned.text)
    return list(zip(found, files, strict=True))


def measured_by_good_nodes(folder: Path, baselines: Baselines) -> tuple[Run, dict[str, LearnedFrom]]:
    """A run and what it measured under load on the nodes where nothing failed, was waived or could not be measured.

    Raises:
        UsageError: the folder has no run, or one without a report.
    """
    evidence = RunFolder.existing(folder)
    earlier, report = read_earlier(evidence), load(folder)
    nodes = {node.name: node for node in earlier.nodes}
    judging = Judging(nodes, earlier.profile, baselines, Waivers(), RunEvidence(evidence))
    good = {
        node.node: LearnedFrom(
            judging.contexts.platform(node.node), judging.view.metrics(node.node), dict(node.identity)
        )
        for node in report.nodes
        if node.node in nodes and node.is_sound and not any(record.waiver for record in node.records)
    }
    return report.run, good


def _write(file: Path, text: str) -> None:
    """Never overwrites a file: someone may have reviewed it."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        hint = "give another with --out, then compare them: nodegate baseline diff A B"
        raise UsageError("this file already exists", file=str(file), hint=hint) from None
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(file)) from None


def _show(asked: argparse.Namespace) -> Answer:
    baselines = Baselines.read(asked.baseline)
    if not asked.platform:
        rows = [(name, platform.limits, platform.title) for name, platform in sorted(baselines.platforms.items())]
        rows.append((EVERYWHERE, baselines.common, "applies to every platform"))
        return [f"{name:<20} {len(limits):>4} limits  {title}" for name, limits, title in rows], 0
    found = baselines.platforms.get(asked.platform)
    if found is None and asked.platform != EVERYWHERE:
        hint = did_you_mean(asked.platform, [*baselines.platforms, EVERYWHERE])
        raise UsageError(f"no baseline for {asked.platform!r}", hint=hint)
    entries = {**baselines.common, **(found.limits if found else {})}
    return list(_lines(entries[key] for key in sorted(entries))), 0


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        for each in entry.variants or (entry,):
            conditions = f" for {conditions_shown(each.parameters)}" if each.parameters else ""
            tolerance = f", tolerance {100 * each.tolerance:g} %" if each.tolerance else ""
            peak = f", peak {shown(each.peak, each.unit)}" if each.peak is not None else ""
            word = f"{each.direction} " if each.direction else ""
            value = "no value" if each.value is None else f"{word}{shown(each.value, each.unit)}"
            yield f"{each.key}: {value}{tolerance}{peak}{conditions}"
            yield f"    {each.file}:{each.line}: {each.source}"


def _diff(asked: argparse.Namespace) -> Answer:
    lines = diff(baseline_file.read(asked.one), baseline_file.read(asked.other))
    refused = any(line.refused for line in lines)
    return [str(line) for line in lines], NOT_COMPARED if refused else DIFFERENT if lines else SAME
