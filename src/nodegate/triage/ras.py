"""What NCCL's service for running jobs says (`ncclras`, text or JSON): processes that are dead, ranks that are behind.

Format: src/ras/client_support.cc of NCCL 2.24 to 2.30. A report is of one moment, and ranks of a job that goes on are
an operation apart too: they hang if the next report in the same file has the same numbers.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nodegate.knowledge.words import Text
from nodegate.triage import remarks
from nodegate.triage.events import Events
from nodegate.triage.log import Log
from nodegate.triage.place import Place
from nodegate.triage.wording import rank_list

MOST_BYTES = 16 << 20
_MOST_PLACES = 1000  # of one finding
_START = "Job summary"
_STARTS = re.compile(rf"^{_START}\r?\n=+\r?$", re.MULTILINE)
_ABOVE = re.compile(
    r"NCCL version .{1,60} compiled with CUDA [0-9.]{1,8}$|CUDA runtime version [0-9]{1,9}, driver version "
)
_JSON = re.compile(r'"(?:communicators_count|missing_ranks|collective_counts)"\s{0,2}:')
_OURS = re.compile(
    r"  |=+$|#[0-9]|Errors$|Warnings$|INCOMPLETE$|DEAD$|TIMEOUT$|Group  |Communicators\.\.\.|The outlier node|\(total\)"
    r"|No communicator data|$"
)
_HEADING = re.compile(
    r"(?:#(?P<comm>[0-9]{1,6}-[0-9]{1,6}) \([0-9a-f]{1,32}\) )?(?P<kind>INCOMPLETE|DEAD|ERROR|MISMATCH)$"
)
_DIFFER = re.compile(r"  Communicator ranks have different (?P<what>\w{1,40}) ?")
_MANY = re.compile(r"  (?P<many>[0-9]{1,7}) ranks (?:have|reported) (?P<said>.{1,80})$")
_RANK = re.compile(
    r"  Rank (?P<rank>[0-9]{1,10}) (?:(?:has|reported) (?P<said>.{1,80}?) )?-- "
    r"(?:GPU (?P<gpu>[0-9]{1,4})(?: \(NVML [0-9]{1,4}\))? managed by process [0-9]{1,10}"
    r" on node (?P<node>[\w.:%-]{1,60}))?"
)
_PROCESS = re.compile(
    r"  Process (?P<pid>[0-9]{1,10}) on node (?P<node>[\w.:%-]{1,60}) managing GPUs? (?P<gpu>[0-9]{1,4})"
)
_ROW = re.compile(
    r" {1,5}(?P<group>[0-9]{1,6}) +(?P<comms>[0-9]{1,7}) +[0-9]+ +[0-9-]+ +(?P<each>[0-9]+) +(?P<all>[0-9]+) +[A-Z]+ "
)
_LAUNCHED = re.compile(r"(?:launched up to operation (?P<count>[0-9]{1,19})|not launched any operations)$")
_FOLLOWS = "Remote process error"  # the rank reports what another one did
_ERRORS = ("", "Unhandled CUDA error", "System error", "Internal error", "Invalid argument", "Invalid usage", _FOLLOWS)
_SAID = {
    "DEAD": Text("{who} is dead: NCCL cannot reach it", "{who} 已失联：NCCL 无法连接"),
    "INCOMPLETE": Text("{who} gives NCCL no answer", "{who} 未应答 NCCL"),
    "ERROR": Text('{who} reports to NCCL: "{what}"', '{who} 向 NCCL 报告："{what}"'),
    "STATUS": Text('{who} has the status "{what}" and other ranks do not', '{who} 的状态为 "{what}"，其他 rank 不是'),
    "BEHIND": Text('{who} is behind: "{what}"', '{who} 落后："{what}"'),
    "AHEAD": Text('{who} is ahead: "{what}"; who is behind is not named', '{who} 领先："{what}"；落后者未列出'),
}


class Told(NamedTuple):
    """What a report says of ranks or processes, in the words of NCCL."""

    kind: str
    comm: str
    operation: str
    said: str


@dataclass(frozen=True)
class Finding:
    """What a report says against ranks or processes."""

    order: int  # the lower, the more it says
    text: Text
    places: tuple[Place, ...]
    settled: bool  # it is more than a moment of a job that goes on


class _Report:
    """One report. `whole` are the communicators whose ranks are those of the job, `most` the ranks of the largest."""

    def __init__(self) -> None:
        self.places: dict[Told, list[Place]] = defaultdict(list)
        self.counts: dict[Told, int] = {}
        self.whole: set[str] = set()
        self.most = 0

    def add(self, told: Told, rank: object, node: object, gpu: object) -> None:
        """Keep of whom this is said; a rank of a smaller communicator is known by its node and GPU alone."""
        number = int(str(rank)) if rank is not None and told.comm in self.whole else None
        place = Place(rank=number, node=str(node or ""), gpu=None if gpu is None else int(str(gpu)))
        if place not in self.places[told][-1:] and len(self.places[told]) < _MOST_PLACES:
            self.places[told].append(place)


def looks_like(head: str) -> bool:
    """Whether a log that begins with this is what `ncclras` printed."""
    return bool(_STARTS.search(head)) or (head.lstrip().startswith("{") and bool(_JSON.search(head)))


def read(log: Log, text: str, events: Events) -> str:
    """Read the reports of a log into `events`; the lines that are not theirs are returned."""
    try:
        reports, rest = ([_of_json(json.loads(text))], "") if text.lstrip().startswith("{") else _of_text(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        log.remarks.lose(remarks.RAS_DAMAGED)
        return ""
    events.reports += len(reports)
    found = [list(_findings(report)) for report in reports]
    before = {(one.text, one.places) for report in found[:-1] for one in report}
    for one in found[-1]:
        settled = one.settled or (one.text, one.places) in before
        events.ras.append(Finding(one.order, one.text, one.places, settled))
    return rest


def _of_text(text: str) -> tuple[list[_Report], str]:
    reports, rest, inside = list[_Report](), list[str](), False
    told = Told("", "", "", "")
    for line in map(str.rstrip, text.splitlines()):
        if line == _START:
            reports.append(_Report())
            inside = True
        elif inside and _OURS.match(line):
            if row := _ROW.match(line):  # the largest communicator has the ranks of the job, if it is one and whole
                report = reports[-1]
                report.most = max(report.most, int(row["all"]))
                whole = row["comms"] == "1" and int(row["each"]) >= report.most
                report.whole |= {f"{row['group']}-0"} if whole else set()
            told = _of_line(reports[-1], line, told)
        elif not _ABOVE.match(line):
            inside = False
            rest.append(line)
    return reports, "\n".join(rest)


def _of_line(report: _Report, line: str, told: Told) -> Told:
    """A line under the table, and what the lines of ranks below it are about."""
    if match := _HEADING.match(line):
        return Told(match["kind"], match["comm"] or "", "", "")
    if match := _DIFFER.match(line):
        return told._replace(operation=match["what"], said="")
    if match := _MANY.match(line):
        told = told._replace(said=match["said"])
        report.counts[told] = int(match["many"])
    elif match := _RANK.match(line):
        report.add(told._replace(said=match["said"] or told.said), match["rank"], match["node"], match["gpu"])
    elif match := _PROCESS.match(line):
        report.add(told._replace(said=match["pid"]), None, match["node"], match["gpu"])
    return told


def _of_json(found: dict[str, list[dict[str, object]]]) -> _Report:
    """The report that `ncclras -f json` prints, in the words of the text."""
    report = _Report()
    comms: list[dict[str, object]] = sorted(found["communicators"], key=lambda comm: -int(str(comm["size"])))
    sizes = [comm["size"] for comm in comms]
    for number, comm in enumerate(comms):
        name = f"{number}-0"
        report.whole |= {name} if comm["size"] == sizes[0] and sizes.count(sizes[0]) == 1 else set()
        for rank in _rows(comm["ranks"]):
            status, counts = _row(rank["status"]), _row(rank["collective_counts"])
            codes = (int(str(status[key])) for key in ("init_state", "async_error"))
            error = next((_ERRORS[code] for code in codes if 0 < code < len(_ERRORS)), "")
            said = [Told("ERROR", name, "", error)] if error else []
            said += [Told("MISMATCH", name, "status", "status ABORT")] if status["abort_flag"] is True else []
            launched = {key: f"launched up to operation {int(str(count))}" for key, count in counts.items()}
            for told in (*said, *(Told("MISMATCH", name, *each) for each in launched.items())):
                report.add(told, rank["rank"], rank["host"], rank["cuda_dev"])
        for rank in _rows(comm["missing_ranks"]):
            kind = "DEAD" if _row(rank["status"])["considered_dead"] is True else "INCOMPLETE"
            report.add(Told(kind, name, "", ""), rank["rank"], rank["host"], rank["cuda_dev"])
    return report


def _rows(found: object) -> list[dict[str, object]]:
    return [_row(each) for each in found] if isinstance(found, list) else []


def _row(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError("not a dictionary")
    return found


def _findings(report: _Report) -> Iterator[Finding]:
    operations: dict[tuple[str, str], dict[int, Told]] = defaultdict(dict)
    for told in [*report.counts, *report.places]:
        if match := _LAUNCHED.match(told.said):
            operations[told.comm, told.operation][int(match["count"] or 0)] = told
    for told, places in report.places.items():
        if told.kind == "MISMATCH" and told.operation == "status":
            yield _finding("STATUS", told.said.removeprefix("status "), places)
        elif told.kind in ("DEAD", "INCOMPLETE", "ERROR"):
            yield _finding(told.kind, told.said, places)
    for (_, operation), counts in operations.items():
        yield from _apart(operation, counts, report)


def _apart(operation: str, counts: dict[int, Told], report: _Report) -> Iterator[Finding]:
    """Who launched fewer operations than most, or, where these are not named, who launched more."""
    if len(counts) < 2:
        return
    number = {count: report.counts.get(told) or len(report.places[told]) for count, told in counts.items()}
    most = max(counts)
    behind, what = [count for count in counts if count < most], f"{operation} {min(counts)} / {most}"
    named = [place for count in behind for place in report.places[counts[count]]]
    if named and sum(number[count] for count in behind) <= number[most]:
        yield _finding("BEHIND", what, named, settled=False)
    elif report.places[counts[most]]:
        yield _finding("AHEAD", what, report.places[counts[most]], settled=False)


def _finding(kind: str, what: str, places: list[Place], *, settled: bool = True) -> Finding:
    ranks = sorted({place.rank for place in places if place.rank is not None})
    gpus = sorted({f"GPU {place.gpu}" for place in places if place.gpu is not None})
    who = f"rank {rank_list(ranks)}" if ranks else "/".join(gpus[:8]) or "?"
    order = [*_SAID].index(kind) + (what == _FOLLOWS) * len(_SAID)  # what says the most comes first
    text = Text(*(said.format(who=who, what=what) for said in (_SAID[kind].en, _SAID[kind].zh)))
    return Finding(order, text, () if kind == "AHEAD" else tuple(places), settled)
