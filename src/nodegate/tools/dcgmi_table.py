"""dcgmi diag without -j: the table for people.

Its cells are broken after 45 characters, in the middle of words; a row without a name goes on with the one above. Up
to 3.x a result is `Pass - GPUs: 1, 2` or `Fail - GPU: 0`, with 4.x `GPU0: Pass`. Source: NVIDIA/DCGM, dcgmi/Diag.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nodegate.probe.readings import shown
from nodegate.tools.dcgmi_result import Diagnosis, Result, Status, Test, Warned, bad, status_in
from nodegate.unknown import Known, Unknown, Why

MAX_LINE = 400
MAX_MESSAGE = 1000
_BEGINS = ("|", "+-", "+=")
_CELL = 45  # characters: DATA_INFO_TAG_LEN
_BORDER = re.compile(r"\+-{3,}\+-{3,}\+")
_RULE = re.compile(r"\+=+\+=+\+")
_SECTION = re.compile(r"[|+]-+  ([A-Za-z][A-Za-z ]{0,40}?)  -+\+-+[|+]")
_STATUS = re.compile(r"(pass|fail|warn|skip|not run)(?: - (?:(all)|GPUs?:? ([0-9][0-9, ]{0,300})))?", re.IGNORECASE)
_OF_ONE = re.compile(r"([A-Za-z_]{1,20}?) ?([0-9]{1,5}): ?(pass|fail|warn|skip|not run|)", re.IGNORECASE)
_ABOUT = re.compile(r"(Warning|Info)(?:: ([A-Za-z_]{1,20}?) ?([0-9]{1,5}))?")
_NO_NUMBER = Unknown(Why.NOT_SUPPORTED, "the table of dcgmi diag has no numbers of errors: -j has")


@dataclass
class _Row:
    """One row with its cells, the first and those that go on with it."""

    category: str
    name: str
    cells: list[str]

    def text(self) -> str:
        """The cells as the one sentence that they were before they were broken."""
        whole = "".join(cell.ljust(_CELL) for cell in self.cells[:MAX_LINE])
        return shown(" ".join(whole.split()), MAX_MESSAGE)


@dataclass
class _Read:
    """What was read so far."""

    about: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)  # of the last test, like the next two
    warnings: list[Warned] = field(default_factory=list)
    info: list[str] = field(default_factory=list)
    row: _Row | None = None

    def close(self) -> None:
        """The last test is whole."""
        if self.row:
            results, warnings, info = tuple(self.results), tuple(self.warnings), tuple(self.info)
            self.tests.append(Test(self.row.category, self.row.name, results, warnings, info))
        self.row, self.results, self.warnings, self.info = None, [], [], []


def is_table(written: str) -> bool:
    """Whether lines of a table stand in it."""
    return any(line.strip().startswith(_BEGINS) for line in written.splitlines())


def parse_table(written: str) -> Diagnosis:
    """The table.

    Raises:
        CannotMeasure: a line is none of its own, or it is cut off before anything failed.
    """
    lines = _table(written)
    found = _Read()
    for row in _rows(lines):
        _take(row, found)
    found.close()
    ended = bool(_BORDER.fullmatch(lines[-1])) and len(lines) > 1
    diagnosis = Diagnosis(
        version=_about(found, "DCGM Version"),
        driver=_about(found, "Driver Version Detected"),
        tests=tuple(found.tests),
        errors=tuple(found.errors),
        ended=ended,
    )
    if not ended and diagnosis.overall is not Status.FAIL:
        raise bad(f"is cut off behind: {shown(lines[-1], 120)}")
    return diagnosis


def _table(written: str) -> list[str]:
    """The lines from the first to the last of the table, without text before and behind."""
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    own = [at for at, line in enumerate(lines) if line.startswith(_BEGINS)]
    return lines[own[0] : own[-1] + 1]


def _rows(lines: list[str]) -> list[_Row]:
    found: list[_Row] = []
    category, heads = "", 0
    for line in lines:
        section = _SECTION.fullmatch(line[:MAX_LINE])
        if section:
            category = section[1]
        elif not _BORDER.fullmatch(line[:MAX_LINE]) and not _RULE.fullmatch(line[:MAX_LINE]):
            name, cell = _cells(line)
            if (name, cell.strip()) == ("Diagnostic", "Result"):
                heads += 1
            elif name:
                found.append(_Row(category, name, [cell]))
            elif found:
                found[-1].cells.append(cell)
            else:
                raise bad(f"begins within a row: {shown(line, 120)}")
    if heads > 1:
        raise bad("holds the results of several runs")
    return found


def _cells(line: str) -> tuple[str, str]:
    """The name and the cell of a row; the cell without the space before it and the padding behind."""
    bar = line.find("|", 1)
    if not line.startswith("|") or bar < 0 or len(line) > MAX_LINE:
        raise bad(f"has a line that is none of its table: {shown(line, 120)}")
    return line[1:bar].strip(), line[bar + 1 :].removesuffix("|").removeprefix(" ").rstrip()


def _take(row: _Row, found: _Read) -> None:
    about = _ABOUT.fullmatch(row.name)
    if row.name == "Error":
        found.errors.append(row.text())
    elif about and found.row is None:
        raise bad(f"has a {about[1].lower()} without a test: {row.text()}")
    elif about and about[1] == "Info":
        found.info.append(row.text())
    elif about:
        entity = f"{about[2]} {about[3]}" if about[2] else ""
        found.warnings.append(Warned(entity, row.text(), _NO_NUMBER, _NO_NUMBER, _NO_NUMBER))
    elif row.category in ("", "Metadata") and row.name.endswith((" Version", " Detected")):
        found.about[row.name] = row.text()
    else:
        found.close()
        found.row = row
        found.results = _results(row)


def _results(row: _Row) -> list[Result]:
    """The results of a test's row. A list of GPUs may be broken over cells, as every text."""
    begun: list[list[str]] = []
    for cell in row.cells:
        if not begun or _STATUS.match(cell) or _OF_ONE.match(cell):
            begun.append([cell])
        else:
            begun[-1].append(cell)
    return [result for cells in begun for result in _result(_Row(row.category, row.name, cells))]


def _result(row: _Row) -> list[Result]:
    text = row.text()
    if one := _OF_ONE.fullmatch(text):
        return [Result(f"{one[1]} {int(one[2])}", status_in(one[3]))]
    if not text:
        return [Result("", Status.NOT_RUN)]
    match = _STATUS.fullmatch(text)
    ids = match[3].replace(" ", "").split(",") if match and match[3] else []
    if match is None or not all(0 < len(each) <= 5 for each in ids):
        raise bad(f"has a result that is none: {row.name} {text}")
    status = status_in(match[1])
    return [Result(f"GPU {int(each)}", status) for each in ids] or [Result("", status)]


def _about(found: _Read, name: str) -> Known[str]:
    return found.about.get(name) or Unknown(Why.MISSING, f"dcgmi names no {name}")
