"""A log as it was read: its name, place and size, how far the training got, who wrote it, and how it ends."""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from dataclasses import dataclass, field, replace

from nodegate.probe.kernel_log import KernelLine
from nodegate.triage import place
from nodegate.triage.clock import Stamp, Times, dated, zone_in
from nodegate.triage.place import Place
from nodegate.triage.recognised import End, Tail
from nodegate.triage.remarks import NUL_BYTES, Remarks
from nodegate.triage.writers import Writers

_OF_1970 = Times(0.0)


# (a string that the line contains, the iteration in it)
_FORMS = (
    (b"iteration", re.compile(rb"iteration[ \t]{1,20}([0-9]{1,12}) {0,4}/ {0,20}[0-9]{1,12}")),
    (b"global_step", re.compile(rb"global_step[=:] {0,4}([0-9]{1,12})")),
    (b'"current_steps"', re.compile(rb"\"current_steps\": {0,4}([0-9]{1,12})")),
    (b"steps: ", re.compile(rb"steps: ([0-9]{1,12}) loss: ")),
    (b"/it]", re.compile(rb"([0-9]{1,12})/[0-9]{3,12} \[[0-9:]{4,12}<[^\]\r\n]{1,60}s/it\]")),
    (
        "步".encode(),
        re.compile("(?:第|步骤|步数)(?: |:|：)?([0-9]{1,12}) ?(?:步)?(?: |,|，|:|：).{0,60}(?:损失|loss)".encode()),
    ),
    (b"it/s", re.compile(rb"([0-9]{1,12})/[0-9]{3,12} \[[0-9:]{4,12}<[^\]\r\n]{1,60}it/s[,\]]")),
)
_TRIES = 8  # lines that contain the string but are not iterations, before a form is dropped
_LINE_BYTES = 1000


@dataclass(frozen=True)
class Iteration:
    """A completed iteration. `stamp` is what its line prints, None without a time; `place` who printed it."""

    number: int
    stamp: Stamp | None
    place: Place = field(default_factory=Place)


def last_iteration(chunk: bytes, start: int, end: int, times: Times, *, stern: bool = False) -> Iteration | None:
    """The last iteration that was completed between two places of a chunk."""
    best, best_at = None, -1
    for literal, form in _FORMS:
        at = end
        for _ in range(_TRIES):
            at = chunk.rfind(literal, max(start, best_at + 1), at)
            if at < 0:
                break
            low, high = max(start, at - _LINE_BYTES), min(end, at + _LINE_BYTES)
            first = max(chunk.rfind(b"\n", low, at), chunk.rfind(b"\r", low, at)) + 1
            line = chunk[max(first, low) : high].partition(b"\n")[0]
            if match := form.search(line):
                best, best_at = (match, line), at
                break
    if best is None:
        return None
    match, line = best
    before = line[: match.start()].decode("utf-8", "replace")
    return Iteration(int(match[1]), times.last(before), place.of_line(before, stern=stern))


@dataclass
class Log:
    """One log as it was read. `lines` and `size_bytes` are of its uncompressed text."""

    name: str
    kernel: bool
    place: Place
    remarks: Remarks = field(default_factory=Remarks)
    lines: int = 0
    size_bytes: int = 0
    first: Stamp | None = None
    last: Stamp | None = None
    iteration: Iteration | None = None
    episode: int = 0
    zone_s: float | None = None
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)  # on which NCCL starts its ranks, two at the most
    writers: Writers = field(default_factory=Writers)
    times: Times = _OF_1970
    torn_down: bool = False  # a launcher ended the workers after a failure
    part_of: str = ""  # the file of which it has the lines of one writer
    in_archive: bool = False  # its name is not a path
    mixed: bool = False  # the clocks of its writers are hours apart
    dump: bool = False  # of a rank's flight recorder, or a report of NCCL
    tail: Tail | None = None
    strange: list[KernelLine] = field(default_factory=list)  # lines of a kernel that sound bad and have no row
    finished: bool = False  # the training came to its end, and nothing failed after that

    def begin(self, text: str, stamps: str) -> None:
        """Read its first lines: `stamps` are the parts of them in which their own times are."""
        if (near_s := dated(stamps)) is not None:
            self.times = replace(self.times, near_s=near_s)
        self.first, self.zone_s = self.times.first(text), zone_in(text)
        if "\0" in text:
            self.remarks.say(NUL_BYTES)

    @property
    def end(self) -> End:
        """What its last lines show."""
        return self.tail.end if self.tail else End()

    def all_ranks(self) -> set[int]:
        """The ranks that its lines name, else the one in its file name."""
        return self.ranks or ({self.place.rank} if self.place.rank is not None else set())
