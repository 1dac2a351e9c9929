"""`nodegate record rebuild`: what run folders and events.jsonl hold is added to the record; nothing leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.judge.waivers import Waivers
from nodegate.past import database, events
from nodegate.past.event import Event
from nodegate.past.keys import KeptRun
from nodegate.past.record import FleetRecord
from nodegate.past.store import number_of, store
from nodegate.records.run_folder import RunFolder
from nodegate.report.json_file import load
from nodegate.run import conditions
from nodegate.run.for_the_record import kept_run
from nodegate.run.judging import Judging
from nodegate.run.run_evidence import RunEvidence


@dataclass
class Rebuilt:
    """What came of it. `left_out` has a line for each folder or line of a file that gave nothing, with the reason."""

    added: int = 0
    known: int = 0
    events: int = 0
    left_out: list[str] = field(default_factory=list)


def rebuild(record: Path, folders: Iterable[Path]) -> Rebuilt:
    """Add to the record what these run folders hold that it has not, oldest first, and the events beside it.

    Raises:
        UsageError: the record cannot be written.
    """
    done = Rebuilt()
    with database.writing(record) as base:
        done.events = len(events.keep(base, _events(record, done)))
    for folder in sorted(folders, key=_started):
        try:
            if _is_known(record, folder, done):
                continue
            kept = read_run(folder, record)
        except UsageError as said:
            done.left_out.append(str(said))
            continue
        with database.writing(record) as base:
            store(base, kept)
        done.added += 1
    return done


def read_run(folder: Path, record: Path) -> KeptRun:
    """A run as the record keeps it, read from its folder: the report as it was written, the numbers from the evidence.

    Raises:
        UsageError: it did not come to its end, or a file is not as nodegate wrote it.
    """
    earlier, report = conditions.read_earlier(RunFolder.existing(folder)), load(folder)
    nodes = {node.name: node for node in earlier.nodes}
    evidence = RunEvidence(RunFolder(folder))
    judging = Judging(
        nodes, earlier.profile, Baselines.read(), Waivers(), evidence, past=FleetRecord(record, keeps=False)
    )
    for node in report.nodes:
        if node.node in nodes:
            judging.register.asked[node.node] = []
    known = replace(report, nodes=tuple(node for node in report.nodes if node.node in nodes))
    return kept_run(known, judging, str(folder.resolve()))


def run_folders(below: Path) -> Iterator[Path]:
    """The run folders in a folder; links to them (`latest`) do not count."""
    for each in sorted(below.iterdir()) if below.is_dir() else ():
        if not each.is_symlink() and (each / "run.json").is_file():
            yield each


def _events(record: Path, done: Rebuilt) -> Iterator[Event]:
    for each in events.read(record):
        if isinstance(each, Event):
            yield each
        else:
            done.left_out.append(f"{record.with_name(events.FILE)}:{each}: not an event as nodegate writes it")


def _is_known(record: Path, folder: Path, done: Rebuilt) -> bool:
    run = conditions.read(RunFolder(folder))
    if run.evidence:  # it only judged another run's evidence again
        return True
    with database.reading(record) as base:
        is_known = number_of(base, run.id, run.started_epoch_s) is not None
    done.known += is_known
    return is_known


def _started(folder: Path) -> float:
    try:
        return conditions.read(RunFolder(folder)).started_epoch_s
    except UsageError:
        return 0.0
