"""The result table of nccl-tests: rows found by their shape, in text that launchers and NCCL's messages interrupt."""

import re
from dataclasses import dataclass

from nodegate.unknown import Known, Unknown, Why

MAX_TEXT = 1 << 20
MAX_LINE = 4096
MAX_ROWS = 4096
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
# mpirun --tag-output writes "[1,0]<stdout>:", srun -l "0: ", others "[0]" at every flush.
_LABEL = re.compile(r"\[\d{1,6}(?:,\d{1,6})?\](?:<std(?:out|err)>)?:? ?")
_LINE_LABEL = re.compile(r"^ {0,6}(?:\d{1,6}|\[?[\w.-]{1,120}\]?): (?=[ #]*(?:\d|#|Rank|nThread|NCCL|Out of|Avg|size))")
_MESSAGE = re.compile(
    r"(?<!\S)(?:\[[\d :.-]{10,40}\] )?\S{1,255}:\d{1,9}:\d{1,9} (?:\[\d{1,4}\] )?(?:\S{1,200} )?"
    r"NCCL (?:INFO|WARN|TRACE|DEBUG) .*"
)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?(?:e[+-]\d{1,3})?")
_CELL = re.compile(r"\d{1,18}(?:\.\d{1,9})?(?:e[+-]\d{1,3})?|-?\d{1,6}|N/A|-?inf|-?nan")
_START = re.compile(r"#? {0,64}(\d{1,18}) +\d{1,18} +([a-z][a-z0-9_]{2,11})(?: +|$)(.{0,400})")
_REDUCTION = re.compile(r"[a-z]{2,8}")
_TIMESTAMP = re.compile(r" \d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d *$")
_HEADER = re.compile(r"[ #]*size +count +type\b.*")
# Bus bandwidth over algorithm bandwidth for n ranks (nccl-tests doc/PERFORMANCE.md).
_TWICE, _ONCE, _PLAIN = "2(n-1)/n", "(n-1)/n", "1"
FACTORS = {
    "all_reduce": _TWICE,
    "all_gather": _ONCE,
    "reduce_scatter": _ONCE,
    "alltoall": _ONCE,
    "gather": _ONCE,
    "scatter": _ONCE,
    "sendrecv": _PLAIN,
    "broadcast": _PLAIN,
    "reduce": _PLAIN,
}
_NOT_CHECKED = Unknown(Why.NOT_SUPPORTED, "not checked in this run")


@dataclass(frozen=True)
class Half:
    """Out of place or in place. `step_*` is half of the last digit as written: the rounding error."""

    time_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    wrong: Known[int]
    checked: bool  # before 2.13 by the largest relative deviation: then there is no count
    step_time: float = 0.0
    step_algbw: float = 0.0
    step_busbw: float = 0.0


@dataclass(frozen=True)
class Row:
    """One size."""

    size_bytes: int
    dtype: str
    out_of_place: Half
    in_place: Half
    cpu_time: bool = False

    @property
    def wrong_counts(self) -> tuple[int, ...]:
        """The counts of wrong elements that are known."""
        return tuple(half.wrong for half in (self.out_of_place, self.in_place) if not isinstance(half.wrong, Unknown))

    def contradictions(self, collective: str, ranks: Known[int]) -> tuple[str, ...]:
        """Sentences about numbers of this row that contradict each other by more than their rounding."""
        found = []
        for name, half in (("out of place", self.out_of_place), ("in place", self.in_place)):
            where = f"{self.size_bytes} bytes, {name}"
            if not self.cpu_time and not _fits_time(self.size_bytes, half):
                found.append(f"{where}: algbw {half.algbw_gb_per_s:g} GB/s is not size over time")
            if not _fits_factor(half, collective, ranks):
                found.append(f"{where}: busbw {half.busbw_gb_per_s:g} GB/s does not follow from algbw")
        return tuple(found)


def clean(written: str) -> tuple[str, str]:
    """The text without colours, launcher labels and NCCL's messages; then those messages."""
    text = _ANSI.sub("", written.replace("\r", ""))
    messages: list[str] = []
    lines = []
    for whole in text.splitlines():
        line = whole[:MAX_LINE]
        if match := _MESSAGE.search(line):
            messages.append(match[0])
            line = line[: match.start()]  # the text before the message belongs to a row
        lines.append(_LINE_LABEL.sub("", _LABEL.sub(" ", line)))
    return "\n".join(lines), "\n".join(messages)


def read_rows(text: str) -> tuple[tuple[Row, ...], str, str]:
    """The rows of a cleaned text, sizes of 0 left out. A row that was split into pieces is joined again.

    Then the first line that looks like a row and has no numbers, and the rest of a truncated row.
    """
    rows: list[Row] = []
    head = pending = unreadable = ""
    for line in text.splitlines():
        if _HEADER.match(line):
            head = line
        elif _START.fullmatch(line.rstrip()):
            unreadable = unreadable or _no_numbers(pending)
            pending = line
        elif pending and _cells(line):
            pending += " " + line
        if pending and (row := _row(pending, head)):
            pending = ""
            if row.size_bytes and len(rows) < MAX_ROWS:
                rows.append(row)
    return tuple(rows), unreadable or _no_numbers(pending), pending.strip()


def _row(line: str, head: str) -> Row | None:
    """A whole row below this head; None while cells are missing, or if one is not a number."""
    match = _START.fullmatch(_TIMESTAMP.sub("", line.rstrip()))
    if match is None:
        return None
    words = match[3].split()
    if words and _REDUCTION.fullmatch(words[0]):
        del words[0]
    if not all(_CELL.fullmatch(word) for word in words):
        return None
    # 8 cells: no root; 9: root; 10: root and #iters. With -I each half has four more.
    of_half = 8 if len(words) in (16, 17, 18) else 4
    rest = len(words) - 2 * of_half
    if not 0 <= rest <= 2:
        return None
    if rest:
        del words[0]  # the root
    first, second = (_half(half, head) for half in (words[:of_half], words[of_half : 2 * of_half]))
    if first is None or second is None:
        return Row(0, "", _NOTHING, _NOTHING) if int(match[1]) == 0 else None
    return Row(int(match[1]), match[2], first, second, "cputime" in head)


def _half(words: list[str], head: str) -> Half | None:
    """Time, two bandwidths, and the count of wrong elements or the deviation."""
    if not all(_NUMBER.fullmatch(word) for word in words[:3]):
        return None
    time_us, algbw, busbw = (float(word) for word in words[:3])
    steps = (_half_step(word) for word in words[:3])
    checked = _NUMBER.fullmatch(words[3]) is not None
    is_count = checked and "error" not in head.split() and "e-" not in words[3]
    return Half(time_us, algbw, busbw, int(float(words[3])) if is_count else _NOT_CHECKED, checked, *steps)


_NOTHING = Half(0.0, 0.0, 0.0, _NOT_CHECKED, checked=False)


def _half_step(word: str) -> float:
    """Half of the last digit that a number is written with: 0.05 of "12.3", 5 of "1.2e+02"."""
    mantissa, _, exponent = word.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def _fits_time(size_bytes: int, half: Half) -> bool:
    """Whether algbw is size over time, as far as the written digits show. 1 byte/µs is 0.001 GB/s."""
    transferred = size_bytes / 1000.0
    off = half.algbw_gb_per_s * half.step_time + half.time_us * half.step_algbw + half.step_time * half.step_algbw
    return abs(half.algbw_gb_per_s * half.time_us - transferred) <= off * 1.01 + 1e-9


def _fits_factor(half: Half, collective: str, ranks: Known[int]) -> bool:
    """Whether busbw follows from algbw; by any factor if the collective or the number of ranks is not known."""
    if collective and collective not in FACTORS:
        return True
    once = (0.5, 1.0) if isinstance(ranks, Unknown) else ((ranks - 1) / ranks, (ranks - 1) / ranks)
    ranges = {_TWICE: (2 * once[0], 2 * once[1]), _ONCE: once, _PLAIN: (1.0, 1.0)}
    for low, high in [ranges[FACTORS[collective]]] if collective else ranges.values():
        off = half.step_busbw * 1.01 + half.step_algbw * high * 1.01 + 1e-9
        if low * half.algbw_gb_per_s - off <= half.busbw_gb_per_s <= high * half.algbw_gb_per_s + off:
            return True
    return False


def _cells(line: str) -> bool:
    """Whether a line consists only of cells of a row that began above."""
    words = _TIMESTAMP.sub("", line).split()
    return 0 < len(words) <= 20 and all(_CELL.fullmatch(word) for word in words)


def _no_numbers(line: str) -> str:
    """The line, if it has as many words as a row and some of them are not numbers: a template, not a split row."""
    words = line.split()
    return line.strip() if len(words) >= 11 and not all(_CELL.fullmatch(word) for word in words[5:]) else ""
