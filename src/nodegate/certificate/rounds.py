"""The rounds of an acceptance: delivery runs of one contract and lot, and where each serial number stands after them.

They are found in the fleet's record and kept beside the run (rounds.json), so that its paper can be written again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import replacing_bytes
from nodegate.files.bounded import read_whole
from nodegate.judge.identity import real_serial
from nodegate.past import database
from nodegate.records.run import NodeReport, Run, shared
from nodegate.records.store import from_bytes, to_bytes
from nodegate.records.verdict import NodeVerdict
from nodegate.report.fleet_result import part_of
from nodegate.report.json_file import MOST_BYTES, ReportFile
from nodegate.report.model import Report, worst_first

FILE = "rounds.json"
MOST_ROUNDS = 100
_RUNS = """
select cast(folder as text), cast(name as text), cast(manifest_sha256 as text),
cast(started_epoch_s as real) from runs
where profile = 'delivery' and started_epoch_s < ? order by started_epoch_s desc limit ?
"""


@dataclass(frozen=True, slots=True)
class RoundNode:
    """A node in a round: its verdict and the serial numbers of its parts."""

    node: str
    verdict: NodeVerdict
    serials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Round:
    """One run. Of a run of a part only the nodes that it rejected count."""

    run: str
    started_epoch_s: float
    manifest_sha256: str
    nodes: tuple[RoundNode, ...]
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Rounds:
    """The rounds before a run, oldest first, and why there may be more than these."""

    rounds: tuple[Round, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Standing:
    """A serial number after all rounds: where it was seen last, in which rounds, and whether it went out.

    `verdict` is that of its node in round `last`; `out` is the round in which another part had its place, 0: none.
    """

    serial: str
    node: str
    slot: str
    first: int
    last: int
    verdict: NodeVerdict
    out: int = 0
    was: str = ""  # the node that it came from


def round_of(report: Report) -> Round:
    """What a report is as a round."""
    is_part = bool(part_of(report))
    nodes = tuple(
        RoundNode(each.node, each.verdict, dict(each.serials))
        for each in worst_first(report.nodes)
        if not is_part or each.verdict is NodeVerdict.REJECTED
    )
    return Round(report.run.id, report.run.started_epoch_s, report.run.manifest_sha256, nodes, is_part)


def earlier(record: Path, run: Run) -> Rounds:
    """The rounds before a run; none for a run without a contract number.

    Raises:
        UsageError: the record is damaged or of a newer release.
    """
    about = run.contract
    if not about.contract.get("number") or not record.exists():
        return Rounds()
    with database.reading(record) as base:
        rows = base.execute(_RUNS, (run.started_epoch_s, MOST_ROUNDS)).fetchall()
    found, notes = [], []
    for folder, name, manifest, started in reversed(rows):
        try:
            raw = read_whole(Path(folder) / "report.json", MOST_BYTES)
            known = from_bytes(ReportFile, raw.replace(b"\n", b""), MOST_BYTES)
        except (OSError, ValueError, UsageError):
            notes.append(name)
            continue
        nodes = tuple(NodeReport(**shared(row, NodeReport)) for row in known.nodes)
        report = Report(known.run, nodes, policy=known.policy)
        same = (report.run.contract.contract.get("number"), report.run.contract.lot.get("number"))
        if same != (about.contract.get("number"), about.lot.get("number")):
            continue
        if (report.run.id, report.run.manifest_sha256, report.run.started_epoch_s) != (name, manifest, started):
            notes.append(name)
        else:
            found.append(round_of(report))
    return Rounds(tuple(found), tuple(notes))


def keep(folder: Path, rounds: Rounds) -> None:
    """Write the rounds before a run beside it; nothing where there are none.

    Raises:
        OSError: they cannot be written.
    """
    if rounds.rounds or rounds.notes:
        with replacing_bytes(folder / FILE) as file:
            file.write(to_bytes(rounds) + b"\n")


def kept(folder: Path) -> Rounds:
    """The rounds that are written beside a run.

    Raises:
        UsageError: the file is damaged.
    """
    file = folder / FILE
    if not file.exists():
        return Rounds()
    try:
        return from_bytes(Rounds, read_whole(file, MOST_BYTES).rstrip(b"\n"), MOST_BYTES)
    except (OSError, ValueError) as broken:
        raise UsageError("cannot be read as the rounds before this run", file=str(file)) from broken


def newest(rounds: Sequence[Round]) -> list[tuple[int, RoundNode]]:
    """Each node as its newest round has it, with the number of that round, in the order of the newest."""
    found: dict[str, tuple[int, RoundNode]] = {}
    for at, each in reversed(list(enumerate(rounds, 1))):
        for node in each.nodes:
            found.setdefault(node.node, (at, node))
    return list(found.values())


def standings(rounds: Sequence[Round]) -> list[Standing]:
    """Where each serial number stands. A place that a round did not read keeps what was there."""
    found: dict[str, Standing] = {}
    places: dict[tuple[str, str], str] = {}
    for at, each in enumerate(rounds, 1):
        seen = {serial for node in each.nodes for serial in node.serials.values()}
        for node in each.nodes:
            for slot, serial in node.serials.items():
                before = places.get((node.node, slot), serial)
                if before not in seen:
                    found[before].out = at
                places[node.node, slot] = serial
                known = found.setdefault(serial, Standing(serial, node.node, slot, at, at, node.verdict))
                if known.last < at:
                    known.was = known.node if known.node != node.node else known.was
                    known.node, known.slot, known.last, known.verdict, known.out = node.node, slot, at, node.verdict, 0
    return list(found.values())


def in_two_nodes(rounds: Sequence[Round]) -> list[tuple[str, tuple[str, ...]]]:
    """The serial numbers that several nodes show after all rounds, with those nodes."""
    nodes = [node for _, node in newest(rounds)]
    count = Counter(
        serial for node in nodes for serial in {each for each in node.serials.values() if real_serial(each)}
    )
    return [
        (serial, tuple(node.node for node in nodes if serial in node.serials.values()))
        for serial, times in count.items()
        if times > 1
    ]
