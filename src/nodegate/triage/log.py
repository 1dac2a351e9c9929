"""A log as it was read: its name, place and size, how far the training got, who wrote it, and how it ends."""

from dataclasses import dataclass, field, replace

from nodegate.probe.kernel_log import KernelLine
from nodegate.triage.clock import Stamp, Times, dated, zone_in
from nodegate.triage.place import Place
from nodegate.triage.progress import Iteration
from nodegate.triage.recognised import End, Tail
from nodegate.triage.remarks import NUL_BYTES, Remarks
from nodegate.triage.writers import Writers

_OF_1970 = Times(0.0)


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
