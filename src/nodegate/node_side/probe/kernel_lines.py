"""Which kernel messages are kept, by kind: what one kind prints in masses costs no line of another kind.

Kept is what a known word names, and every line of level warning and above, whoever wrote it. Of a kind the newest lines
are kept, and it is counted how many older ones were not. Xids and SXids are counted by code and device: of each the
first and the newest ones are kept, so that none is missing however often others were printed. Of the lines that are
kept for their level alone, each driver has its share.
"""

import re
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Tuple

LINE_LIMIT = 1000
MOST_LINES = 800  # of a kind
MOST_BYTES = 75_000  # of a kind
XID_LINE_LIMIT = 300
MOST_XIDS = 1000
MOST_CODES = 128  # of code and device
MOST_WRITERS = 32  # of lines that are kept for their level alone; the others share what one may have
MOST_OF_A_WRITER = 40
MOST_BYTES_OF_A_WRITER = 4000
LEVEL_LINE_LIMIT = 300
_OLDER_THAN_ALL = 1 << 60  # a number in the order of lines, newest first
ERR, WARNING = 3, 4  # levels of the kernel: 0 (emerg) to 7 (debug)
FIRMWARE, BY_ERR, BY_WARNING = LEVEL_KINDS = ("firmware", "err", "warning")  # kept for their level alone

ERROR = (
    r"\b(?:errors?|fail(?:ed|s|ure|ing)?|fault|fatal|tim(?:ed |e)-?out|corrupt(?:ed|ion)?|panic|bug|oops"
    r"|abort(?:ed|ing)?|invalid|cannot|can't|unable|not responding|critical|alert|lost|uncorrect\w{0,8}|unexpected"
    r"|broken|dead|degraded)\b"
)

# Kind: words of which one is in the lower-case line (the quick look), and what the line then must match. A line is of
# the first kind that it matches.
KINDS: Dict[str, Tuple[str, str]] = {
    "xid": ("xid|fallen off the bus", r"\bs?xid\b|fallen off the bus"),
    # PCI Express, its error reporting, and what translates its addresses
    "pcie": (
        (
            "pcie|aer|bus error|dpc:|limited by|iommu|dmar|io_page_fault|power state|amd-vi|smmu|bar |retraining"
            "|enable device|mmio|peer-to-peer|not ready|link active|link not|link is not"
            "|pending transaction|error details|mrrs"
        ),
        (
            r"pcieport|pciehp|\baer\b|bus error: severity|pcie link|limited by|dpc:|(?:iommu|dmar).*\bfault"
            r"|io_page_fault|change power state|amd-vi: (?:event|compl|comm)|pending transaction|no error details for"
            r"|\bbar [0-5]\b.*(?:no space|assign|claimed|reserve)|\bmrrs was|(?:can't|cannot) enable device"
            r"|smmu.*(?:fault|error|timeout|respond|event|overflow)|retraining|peer-to-peer dma|not ready \d+ms after"
            r"|mmio resources|dmar: (?:vt-d detected|qi: )|link (?:active|is)? ?not (?:set|active|tr)"
        ),
    ),
    # memory controllers, heat, power
    "machine": (
        (
            "mce|machine check|hardware error|edac|ghes|above threshold|thermal shutdown|throttl|power supply|"
            "memory failure: 0x|hardware memory|critical temp|serror|nmi: |cmci"
        ),
        (
            r"\bmce\b|machine check|hardware error|\bedac\b|ghes|above threshold|thermal shutdown|throttl|power supply"
            r"|memory failure: 0x|hardware memory (?:error|corruption)|critical temperature|\bserror\b|\bcmci\b"
            r"|\bnmi: (?:iock|pci|serr|memory)"
        ),
    ),
    # a kernel that is stuck or broken
    "stuck": (
        (
            "hung task|blocked for more|lockup|rcu|kernel bug|oops|call trace|kernel panic|general protection|bug: "
            "|csd lock| cared|disabling irq|nmi received"
        ),
        (
            r"hung task|blocked for more than|(?:soft|hard|workqueue) lockup|rcu.*(?:stall|starved|kthread timer)"
            r"|kernel bug|\boops\b|call trace|csd lock|irq [0-9]+: no\w+ cared|disabling irq|nmi received"
            r"|kernel panic|general protection fault[:,]|bug: (?:kernel null|unable to handle)"
        ),
    ),
    "memory": (
        "out of memory|oom|killed process|page allocation failure|deadlocked on",
        r"out of memory|oom-kill|oom_reaper|killed process|page allocation failure|deadlocked on memory",
    ),
    "host": (
        (
            "file-max limit|unstable|clocksource|tsc |conntrack|neighbo|tcp: |orphaned|ipmi|smbus|power_meter|power cap"
            "|power limit"
        ),
        (
            r"file-max limit|marking (?:tsc |clocksource 'tsc' as )?unstable|clocksource: .*(?:long|delay)"
            r"|\btsc (?:warp|sync)|nf_conntrack: .*full|neighbou?r.*overflow|tcp: (?:too many orph|out of mem)"
            r"|\bipmi_s.*(?:fail|time|hung|respond|could not)|ipmi message handler: .*(?:unable|fail|timed)"
            r"|\bi801_smbus .*(?:fail|timeout|busy)|power_meter .*capping|power (?:cap|limit)\w{0,4} (?:in prog|exceed)"
        ),
    ),
    "storage": (
        (
            "i/o error|i/o failure|nvme|md|remounting|medium error|-fs|xfs|btrfs|journal|jbd2|nfs: server"
            "|nfs: |rpc: |lustre|lnet|ceph|beegfs|megaraid|mpt2sas|mpt3sas|smartpqi|hpsa|aacraid"
        ),
        (
            r"i/o (?:error|failure)|critical medium error|\bnvme|\bmd/raid|\bmd[0-9]*:|remounting filesystem read-only"
            r"|(?:ext4|xfs|btrfs)[-: ].*(?:error|critical|corrupt|shut|fail|lost|loss|deadlock)|nfs: server|\blnet"
            r"|(?:nfs|rpc): .*(?:nfs4?_|state manager|error|timed)|\bceph|libceph|beegfs|aborting journal|jbd2: "
            r"|lustre|megaraid|mpt[23]sas|smartpqi|\bhpsa\b|aacraid"
        ),
    ),
    # programs of jobs that crashed
    "program": ("segfault at", r"segfault at .*(?:libnccl|libcuda|libnvidia|python|pt_main)"),
    # the driver, NVSwitch and NVLink; GPUDirect
    "nvidia": ("nvrm|nvidia|nvswitch|nvlink|gdrdrv", r"nvrm|nvidia|nvswitch|nvlink|gdrdrv"),
    # RDMA adapters, links that come and go
    "network": (
        (
            "mlx|infiniband|rdma|efa|ib|netdev watchdog|port module event|link|bnxt|ice |: probe |i40e|ixgbe|ionic|"
            "hfi1|ena |gve |mana |hns|qed|cxgb4|idpf|iavf|slave |802.3ad|hw csum"
        ),
        (
            r"mlx[45]|infiniband|rdma|\befa\b|\bib[0-9]+\b|\bibp[0-9]|netdev watchdog|port module event"
            r"|\bbnxt_(?:en|re)\b|\b(?:ice|i40e|ixgbe|ionic|hfi1|ena|gve|mana|hns3|hns_roce|qed[er]|cxgb4|idpf|iavf)"
            r" [0-9a-f:.]{7}|\b(?:bnxt_en|ice|i40e|ixgbe|ionic|efa|ena|mana|hns3)[^\n]{0,20}: probe (?:of|with driver) "
            r"|\(slave |802\.3ad response|hw csum failure|\bib[\w.]+: "
            r"|link (?:is )?(?:not ready|down|up|becomes ready)"
        ),
    ),
    # whatever else sounds like an error: of any driver (judged by kernel_log/unknown_errors.py)
    "other": (
        (
            "error|fail|fault|fatal|time|corrupt|panic|bug|oops|abort|invalid|cannot|can't|unable|respond|critical|"
            "alert|lost|uncorrect|unexpected|broken|dead|degraded"
        ),
        (
            r"^(?!.*(?:command line:|\baudit[:( ]|\bacpi(?: bios)?(?: error| warning| exception)|\[firmware bug\]))"
            ".*" + ERROR
        ),
    ),
}
_PATTERNS = [(kind, words.split("|"), re.compile(pattern)) for kind, (words, pattern) in KINDS.items()]
# What kernels print in masses and work around: slips in the tables of the firmware, and programs that write to the log.
_NOISE = re.compile(r"^(?:acpi\b|\[firmware (?:bug|warn|info)\]|audit[:( ]|systemd(?:[\[:-]|$))|\[firmware bug\]")
_PREFIX = re.compile(  # time, host and "kernel:" of any source
    r"^(?:\d{4}-\S+ \S+ |[a-z]{3} [ \d]\d \d\d:\d\d:\d\d \S+ )?(?:kernel(?:\[\d+\])?: ?)?(?:\[ *\d+\.\d+\] ?)?"
)
_WRITER = re.compile(r"[a-z_][\w-]*|.{1,20}")  # "ice", "nvme", "[UFW BLOCK] IN=eth0"
_CODE = re.compile(r"\s*(\(pci:[0-9a-f:.]*\))?\D*(\d+)?")  # what follows the word Xid


class Lost(NamedTuple):
    """How many lines of a kind were left out, and the newest one of them."""

    kind: str
    lines: int
    newest: str


def kind_of(line: str, level: Optional[int] = None) -> str:
    """The kind of a line of interest, for its words or else for its level; empty for all others."""
    small = line.lower()
    for kind, words, pattern in _PATTERNS:
        for word in words:
            if word in small:
                if pattern.search(small):
                    return kind
                break
    if level is None or level > WARNING:
        return ""
    if _NOISE.search(_text(small)):
        return FIRMWARE
    return BY_ERR if level <= ERR else BY_WARNING


def _text(line: str) -> str:
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


def _writer(line: str) -> str:
    """Whose line it is: the first word of its text."""
    match = _WRITER.match(_text(line.lower()))
    return match.group() if match else ""


class Kept:
    """The interesting lines within the limits; the caller says in which direction time runs."""

    def __init__(self, newest_first: bool, levels: bool = False) -> None:
        self.newest_first = newest_first
        self.levels = levels  # whether the source names the level of its lines
        self.seen = 0  # kernel lines of any kind
        self.oldest = ""  # the oldest line that was seen, of interest or not
        self.of_this_boot: Optional[int] = None  # how many of the newest ones are known to be
        self.missed = 0  # messages of this boot that were overwritten before they were read
        self.boot_ends: Optional[int] = None  # how many lines came before another boot's, newest first
        self._xids = _Xids(newest_first)
        self._kinds: Dict[Tuple[str, str], _Newest] = {}  # by kind, and by the writer where only the level says so

    def offer(self, line: str, level: Optional[int] = None) -> None:
        """Count a kernel line, and keep it if it is of interest: with its level before it, if that is known and bad."""
        self.seen += 1
        # journalctl prints the other lines of a message below it, without a time stamp
        if not line.startswith(" ") and (self.newest_first or not self.oldest):
            self.oldest = line
        kind = kind_of(line, level)
        told = f"<{level}>{line}" if level is not None and level <= WARNING else line
        if kind == "xid":
            self._xids.offer(self.seen, told[:XID_LINE_LIMIT])
        elif kind in LEVEL_KINDS:
            self._of_writer(kind, _writer(line)).offer(self.seen, told[:LEVEL_LINE_LIMIT])
        elif kind:
            self._newest(kind, "", MOST_LINES, MOST_BYTES).offer(self.seen, told[:LINE_LIMIT])

    def leave_out(self, line: str, level: int) -> None:
        """Count a line, older than all that is offered, that only its level would keep."""
        kind = kind_of(line, level)
        if kind in LEVEL_KINDS:
            self._of_writer(kind, _writer(line)).leave_out((_OLDER_THAN_ALL, line))

    def _of_writer(self, kind: str, writer: str) -> "_Newest":
        if (kind, writer) not in self._kinds and sum(1 for one, _ in self._kinds if one == kind) >= MOST_WRITERS:
            writer = ""
        return self._newest(kind, writer, MOST_OF_A_WRITER, MOST_BYTES_OF_A_WRITER)

    def _newest(self, kind: str, writer: str, lines: int, size: int) -> "_Newest":
        if (kind, writer) not in self._kinds:
            self._kinds[kind, writer] = _Newest(self.newest_first, lines, size)
        return self._kinds[kind, writer]

    def lines(self) -> List[str]:
        """Oldest first."""
        return [line for _, line in self._in_order()]

    def lines_of_this_boot(self) -> int:
        """How many of the lines came before `boot_ends`; all where no other boot's came."""
        return sum(1 for number, _ in self._in_order() if self.boot_ends is None or number <= self.boot_ends)

    def lost(self) -> List[Lost]:
        """What was left out, by kind."""
        found = [("xid", self._xids.lost, (0, self._xids.newest_lost))]
        for kind in sorted({kind for kind, _ in self._kinds}):
            lossy = [kept for (one, _), kept in self._kinds.items() if one == kind and kept.lost]
            newest = sorted((kept.newest_lost for kept in lossy), reverse=not self.newest_first)
            found.append((kind, sum(kept.lost for kept in lossy), newest[0] if newest else (0, "")))
        return [Lost(kind, count, newest) for kind, count, (_, newest) in found if count]

    def _in_order(self) -> List[Tuple[int, str]]:
        every = self._xids.numbered()
        for kept in self._kinds.values():
            every += kept.numbered
        return sorted(every, reverse=self.newest_first)


class _Newest:
    """The newest lines of one kind, within two limits."""

    def __init__(self, newest_first: bool, most_lines: int, most_bytes: int) -> None:
        self.numbered: Deque[Tuple[int, str]] = deque()
        self.lost = 0
        self.newest_lost = (0, "")
        self._newest_first = newest_first
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._bytes = 0

    def offer(self, number: int, line: str) -> None:
        size = len(line.encode("utf-8", "replace"))
        if self._newest_first and (len(self.numbered) >= self._most_lines or self._bytes + size > self._most_bytes):
            self._bytes = self._most_bytes  # nothing older is kept once a line was left out: no gaps
            self.leave_out((number, line))
            return
        self.numbered.append((number, line))
        self._bytes += size
        while len(self.numbered) > self._most_lines or self._bytes > self._most_bytes:
            self.newest_lost = self.numbered.popleft()
            self._bytes -= len(self.newest_lost[1].encode("utf-8", "replace"))
            self.lost += 1

    def leave_out(self, numbered: Tuple[int, str]) -> None:
        """Count a line that comes newest first and does not fit."""
        self.newest_lost = min(self.newest_lost, numbered) if self.lost else numbered
        self.lost += 1


class _Xids:
    """The Xids and SXids: of each code and device the first and the newest lines; `lost` are those of neither."""

    def __init__(self, newest_first: bool) -> None:
        self.lost = 0
        self.newest_lost = ""
        self._newest_first = newest_first
        self._heads: Dict[Tuple[str, ...], List[Tuple[int, str]]] = {}
        self._tails: Dict[Tuple[str, ...], Deque[Tuple[int, str]]] = {}

    def offer(self, number: int, line: str) -> None:
        # Device, code and severity, as far as the line names them; or "GPU 0000:9b:00.0: GPU has fallen off the bus."
        before, word, after = line.lower().partition("xid")
        match = _CODE.match(after)
        device, code = (match.group(1) or "", match.group(2) or "") if match else ("", "")
        severity = "nonfatal" if "nonfatal" in after or "non-fatal" in after else ""
        key = (before[-1:], device, code, severity) if word else (before[-60:],)
        if key not in self._heads:
            if len(self._heads) >= MOST_CODES:
                self.newest_lost = self.newest_lost if self._newest_first and self.lost else line
                self.lost += 1
                return
            self._heads[key], self._tails[key] = [], deque(maxlen=MOST_XIDS // 2)
        head = self._heads[key]
        (head if len(head) < MOST_XIDS // 2 else self._tails[key]).append((number, line))

    def numbered(self) -> List[Tuple[int, str]]:
        half = MOST_XIDS // 2 // max(1, len(self._heads))
        found: List[Tuple[int, str]] = []
        for key, head in self._heads.items():
            rest = head[half:] + list(self._tails[key])
            found += head[:half] + rest[-half:]
        return found
