"""Which kernel messages are kept, by kind: what one kind prints in masses costs no line of another kind.

Of a kind the newest lines are kept, and it is counted how many older ones were not. Xids and SXids are counted by code
and device: of each the first and the newest ones are kept, so that none is missing however often others were printed.
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

# Kind: words of which one is in the lower-case line (the quick look), and what the line then must match. A line is of
# the first kind that it matches.
KINDS: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "xid": (("xid", "fallen off the bus"), r"\bs?xid\b|fallen off the bus"),
    # PCI Express, its error reporting, and what translates its addresses
    "pcie": (
        ("pcie", "aer", "dpc:", "limited by", "iommu", "dmar", "io_page_fault"),
        r"pcieport|pciehp|\baer\b|pcie bus error|pcie link|limited by|dpc:|(?:iommu|dmar).*\bfault|io_page_fault",
    ),
    # memory controllers, heat, power
    "machine": (
        (
            "mce",
            "machine check",
            "hardware error",
            "edac",
            "ghes",
            "above threshold",
            "thermal shutdown",
            "throttl",
            "power supply",
        ),
        r"\bmce\b|machine check|hardware error|\bedac\b|ghes|above threshold|thermal shutdown|throttl|power supply",
    ),
    # a kernel that is stuck or broken
    "stuck": (
        ("hung task", "blocked for more", "lockup", "rcu", "kernel bug", "oops", "call trace", "kernel panic"),
        r"hung task|blocked for more than|(?:soft|hard) lockup|rcu.*stall|kernel bug|\boops\b|call trace|kernel panic",
    ),
    "memory": (
        ("out of memory", "oom", "killed process", "page allocation failure"),
        r"out of memory|oom-kill|oom_reaper|killed process|page allocation failure",
    ),
    "host": (("file-max limit",), r"file-max limit"),
    "storage": (
        (
            "i/o error",
            "nvme",
            "md",
            "remounting",
            "medium error",
            "-fs",
            "xfs",
            "btrfs",
            "nfs: server",
            "lustre",
            "ceph",
            *("megaraid", "mpt2sas", "mpt3sas", "smartpqi", "hpsa", "aacraid"),
        ),
        (
            r"i/o error|critical medium error|\bnvme|\bmd/raid|\bmd[0-9]+:|remounting filesystem read-only"
            r"|(?:ext4|xfs|btrfs)[- ].*(?:error|corrupt|shut)|nfs: server|lustre|\bceph|libceph"
            r"|megaraid|mpt[23]sas|smartpqi|\bhpsa\b|aacraid"
        ),
    ),
    # programs of jobs that crashed
    "program": (("segfault at",), r"segfault at .*(?:libnccl|libcuda|libnvidia|python|pt_main)"),
    # the driver, NVSwitch and NVLink; GPUDirect
    "nvidia": (("nvrm", "nvidia", "nvswitch", "nvlink", "gdrdrv"), r"nvrm|nvidia|nvswitch|nvlink|gdrdrv"),
    # RDMA adapters, links that come and go
    "network": (
        ("mlx", "infiniband", "rdma", "efa", "ib", "netdev watchdog", "port module event", "link"),
        (
            r"mlx[45]|infiniband|rdma|\befa\b|\bib[0-9]+\b|\bibp[0-9]|netdev watchdog|port module event"
            r"|link (?:is )?(?:not ready|down|up|becomes ready)"
        ),
    ),
    # whatever else sounds like an error: of any driver (judged by kernel_log/unknown_errors.py)
    "other": (
        (
            *("error", "fail", "fault", "fatal", "time", "corrupt", "panic", "bug", "oops", "abort", "invalid"),
            *("cannot", "can't", "unable", "respond", "critical", "alert", "lost", "uncorrect", "unexpected"),
            *("broken", "dead", "degraded"),
        ),
        (
            r"^(?!.*(?:command line:|\baudit[:( ]|\bacpi(?: bios)?(?: error| warning| exception)|\[firmware bug\]))"
            r".*\b(?:errors?|fail(?:ed|s|ure|ing)?|fault|fatal|tim(?:ed |e)-?out|corrupt(?:ed|ion)?|panic|bug|oops"
            r"|abort(?:ed|ing)?|invalid|cannot|can't|unable|not responding|critical|alert|lost|uncorrect\w{0,8}"
            r"|unexpected|broken|dead|degraded)\b"
        ),
    ),
}
_PATTERNS = [(kind, words, re.compile(pattern)) for kind, (words, pattern) in KINDS.items()]
_CODE = re.compile(r"\s*(\(pci:[0-9a-f:.]*\))?\D*(\d+)?")  # what follows the word Xid


class Lost(NamedTuple):
    """How many lines of a kind were left out, and the newest one of them."""

    kind: str
    lines: int
    newest: str


def kind_of(line: str) -> str:
    """The kind of a line of interest; empty for all others."""
    small = line.lower()
    for kind, words, pattern in _PATTERNS:
        for word in words:
            if word in small:
                if pattern.search(small):
                    return kind
                break
    return ""


class Kept:
    """The interesting lines within the limits; the caller says in which direction time runs."""

    def __init__(self, newest_first: bool) -> None:
        self.newest_first = newest_first
        self.seen = 0  # kernel lines of any kind
        self.first: Optional[str] = None
        self.last: Optional[str] = None
        self.of_this_boot: Optional[int] = None  # how many of the newest ones are known to be
        self.missed = 0  # messages of this boot that were overwritten before they were read
        self._boot_ends = -1
        self._xids = _Xids(newest_first)
        self._kinds: Dict[str, _Newest] = {}

    def offer(self, line: str) -> None:
        """Count a kernel line, and keep it if it is of interest."""
        self.seen += 1
        if not line.startswith(" "):  # journalctl prints the other lines of a message below it, without a time stamp
            self.first = line if self.first is None else self.first
            self.last = line
        kind = kind_of(line)
        if kind == "xid":
            self._xids.offer(self.seen, line[:XID_LINE_LIMIT])
        elif kind:
            if kind not in self._kinds:
                self._kinds[kind] = _Newest(self.newest_first)
            self._kinds[kind].offer(self.seen, line[:LINE_LIMIT])

    def boot_ends(self) -> None:
        """What was offered so far, newest first, is of this boot, and what follows is not."""
        self._boot_ends = self.seen if self._boot_ends < 0 else self._boot_ends

    @property
    def is_of_this_boot(self) -> bool:
        """Whether what is offered now can be of this boot."""
        return self._boot_ends < 0

    @property
    def oldest(self) -> str:
        """The oldest line that was seen, of interest or not."""
        return (self.last if self.newest_first else self.first) or ""

    def lines(self) -> List[str]:
        """Oldest first."""
        return [line for _, line in self._in_order()]

    def lines_of_this_boot(self) -> int:
        """How many of the lines came before `boot_ends`."""
        return sum(1 for number, _ in self._in_order() if self._boot_ends < 0 or number <= self._boot_ends)

    def lost(self) -> List[Lost]:
        """What was left out, by kind."""
        found = [("xid", self._xids.lost, self._xids.newest_lost)]
        found += [(kind, kept.lost, kept.newest_lost) for kind, kept in self._kinds.items()]
        return [Lost(kind, count, newest) for kind, count, newest in found if count]

    def _in_order(self) -> List[Tuple[int, str]]:
        every = self._xids.numbered()
        for kept in self._kinds.values():
            every += kept.numbered
        return sorted(every, reverse=self.newest_first)


class _Newest:
    """The newest lines of one kind."""

    def __init__(self, newest_first: bool) -> None:
        self.numbered: Deque[Tuple[int, str]] = deque()
        self.lost = 0
        self.newest_lost = ""
        self._newest_first = newest_first
        self._bytes = 0

    def offer(self, number: int, line: str) -> None:
        size = len(line.encode("utf-8", "replace"))
        if self._newest_first and (len(self.numbered) >= MOST_LINES or self._bytes + size > MOST_BYTES):
            self._bytes = MOST_BYTES  # nothing older is kept once a line was left out: no gaps
            self.newest_lost = self.newest_lost or line
            self.lost += 1
            return
        self.numbered.append((number, line))
        self._bytes += size
        while len(self.numbered) > MOST_LINES or self._bytes > MOST_BYTES:
            _, self.newest_lost = self.numbered.popleft()
            self._bytes -= len(self.newest_lost.encode("utf-8", "replace"))
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
        key = _code_of(line.lower())
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


def _code_of(line: str) -> Tuple[str, ...]:
    """Device, code and severity of a line with an Xid, as far as it names them."""
    before, word, after = line.partition("xid")
    if not word:
        return (line[-60:],)  # "GPU 0000:9b:00.0: GPU has fallen off the bus."
    match = _CODE.match(after)
    device, code = (match.group(1) or "", match.group(2) or "") if match else ("", "")
    return before[-1:], device, code, "nonfatal" if "nonfatal" in after or "non-fatal" in after else ""
