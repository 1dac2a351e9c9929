"""Node side: on which CPUs a program that drives a NIC runs. Python 3.6, standard library only.

A program on the other socket reads and writes over the link between the sockets, which all rails at once may fill. So
each runs near its NIC: on a core of its own, while there are enough, with the memory that it touches there first.
`{"nic": "mlx5_0", "turn": 0}` asks for a seat: two turns for each NIC, for the server and the client of a link.
"""

import contextlib
import os
import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

SYS, NODES, CPUS = "/sys/class/infiniband", "/sys/devices/system/node", "/sys/devices/system/cpu"
TURNS = 2
PART = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z")
MOST_CPUS, MOST_TEXT = 8192, 65536


class Seat:
    """The CPUs of one program. `near`: where the NIC is; empty: `why` says why the program is not bound."""

    def __init__(self, cpus: "Set[int]", near: str, why: str = "", *, search: bool = False) -> None:
        self.cpus, self.near, self.why, self.search = cpus, near, why, search
        self.found = ""

    def look(self, pid: int, argv: "Sequence[str]") -> bool:
        """Read on which CPUs the kernel lets it run; in a container the program is another process than its client."""
        worker = process_of(argv) if self.search else pid
        self.found = allowed(worker) or self.found if worker else self.found
        return bool(self.found)

    def line(self) -> "Dict[str, str]":
        """What is reported."""
        asked = listed(self.cpus) if not self.why else ""
        return {"near": "" if self.why else self.near, "asked": asked, "found": self.found, "why": self.why}


class Room:
    """All seats of a node. `nics` are all NICs that are measured there, so that two calls give out no core twice."""

    def __init__(self, nics: "Iterable[str]") -> None:
        self.near = {nic: near_nic(nic.partition(":")[0]) for nic in nics}

    def seat(self, asked: "Optional[Dict[str, Any]]") -> "Optional[Seat]":
        """The seat that was requested; None if there was no request."""
        if not asked:
            return None
        cpus, place, why = self.near.get(asked["nic"]) or near_nic(asked["nic"].partition(":")[0])
        usable = cpus & os.sched_getaffinity(0)
        if cpus and not usable:
            why = "none of the CPUs near {} ({}) may be used here".format(asked["nic"], listed(cpus))
        neighbours = [nic for nic, (theirs, _, _) in self.near.items() if theirs == cpus]
        own = cores(usable) if len(usable) >= TURNS * len(neighbours) else []
        if len(own) >= TURNS * len(neighbours) and asked["nic"] in neighbours:
            usable = {own[TURNS * neighbours.index(asked["nic"]) + asked["turn"]]}
        return Seat(usable, place, why, search=bool(asked.get("search")))


@contextlib.contextmanager
def taken(seat: "Optional[Seat]") -> "Iterator[None]":
    """A process that is started in this context runs there from the first instruction: it inherits our CPUs."""
    if seat is None or seat.why or not seat.cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, seat.cpus)
    except OSError as error:
        seat.why = f"the CPUs near its NIC ({listed(seat.cpus)}) are refused: {error.strerror}"
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def near_nic(device: str) -> "Tuple[Set[int], str, str]":
    """The CPUs near a NIC, the name of that place, and why there is none."""
    folder = f"{SYS}/{device}/device/"
    node, beside = text(folder + "numa_node"), cpus_in(text(folder + "local_cpulist"))
    if node.isdigit():
        beside = beside or cpus_in(text(f"{NODES}/node{node}/cpulist"))
        place = "NUMA node " + node
        return (beside, place, "") if beside else (set(), "", f"sysfs lists no CPU of {place} of {device}")
    nodes = cpus_in(text(NODES + "/has_cpu")) or cpus_in(text(NODES + "/online"))
    if len(nodes) > 1:
        return set(), "", f"sysfs does not say to which of {len(nodes)} NUMA nodes {device} belongs"
    return beside or os.sched_getaffinity(0), "the only NUMA node", ""


def cores(cpus: "Set[int]") -> "List[int]":
    """One CPU of each core, in their order; the first core comes last: the kernel's own work is there."""
    found, seen = [], set()  # type: List[int], Set[int]
    for cpu in sorted(cpus):
        if cpu not in seen:
            found.append(cpu)
            seen |= cpus_in(text(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list")) | {cpu}
    return found[1:] + found[:1]


def process_of(argv: "Sequence[str]") -> int:
    """The process whose command line is the last part of `argv`, without what starts it; 0: there is no such one."""
    wanted = [list(argv[place:]) for place in range(1, len(argv))]
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read(MOST_TEXT).decode("utf-8", "replace").split("\0")[:-1]
                if words in wanted:
                    return int(name)
    return 0


def allowed(pid: int) -> str:
    """The CPUs on which a process may run, as the kernel lists them; empty once it has gone."""
    lines = text(f"/proc/{pid}/status", rooted=False).splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Cpus_allowed_list:")), "")


def cpus_in(written: str) -> "Set[int]":
    """The numbers in "0-3,8"; none where it is not such a list."""
    found = set()  # type: Set[int]
    for part in written.split(",") if written else ():
        match = PART.match(part)
        if match is None:
            return set()
        found.update(range(int(match.group(1)), min(int(match.group(2) or match.group(1)), MOST_CPUS) + 1))
    return found


def listed(cpus: "Iterable[int]") -> str:
    """CPUs as the kernel lists them: "0-3,8"."""
    runs = []  # type: List[List[int]]
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join("{}-{}".format(*run) if run[1] > run[0] else str(run[0]) for run in runs)


def text(path: str, *, rooted: bool = True) -> str:
    """What a file of the kernel says, without the space around it; empty where it cannot be read."""
    root = os.environ.get("NODEGATE_PROBE_ROOT", "") if rooted else ""
    with contextlib.suppress(OSError, ValueError), open(root + path) as file:
        return file.read(MOST_TEXT).strip()
    return ""
