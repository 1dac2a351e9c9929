"""Nodes held in Slurm: by an exclusive allocation of our own for each, or by one reservation for all of them.

An ordinary user may allocate; a reservation needs operator's rights, and Slurm's time limit ends both. Written for
Slurm 22.05 and later: salloc(1), sinfo(1), squeue(1), scontrol(1).
"""

import math
import os
import pwd
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import expand
from nodegate.node import Node
from nodegate.scheduler.hold import NAME, Held, has_ended, owner
from nodegate.scheduler.jobs import slurm_name
from nodegate.scheduler.programs import NoAnswer, answer

if TYPE_CHECKING:
    from typing_extensions import Self

AT_ONCE = 16  # calls of salloc
IMMEDIATE_S = 10  # that Slurm has to give a free node to us
ANSWER_S = 30.0
EPILOG_S = 60.0  # that a job which has ended may take to leave its node
RESERVED_S = 3.0  # until sinfo shows a reservation that begins now
# Free for us, or taken out by someone: nothing starts on it either way.
_FREE, _OUT = frozenset({"idle", "planned", "maint", "completing"}), frozenset({"drained"})
_AT_WORK = frozenset({"allocated", "mixed", "completing"})
_UNKNOWN = "what Slurm calls it is not known, or another node has that name too: set nodegate_slurm_name"
_NO_RIGHT = "Invalid user id"  # how Slurm says so
_SIGNS = "*~#!%$@^-"  # that sinfo sets behind a state


@dataclass(eq=False)
class SlurmHold:
    """Slurm as this machine's login reaches it.

    `names` are Slurm's names of the inventory's nodes, `options` by node the account, partition and QOS of our jobs.
    `reservation` is how the name of the one to make begins; empty: an allocation for each node.
    """

    names: Mapping[str, str]
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reservation: str = ""
    _has_asked: bool = field(default=False, init=False)  # for a node, which may be held then also without an answer
    _held: dict[str, str] = field(default_factory=dict, init=False)  # Slurm's name -> the inventory's
    _drained: dict[str, str] = field(default_factory=dict, init=False)  # of these, those that nothing starts on anyway

    @classmethod
    def to(cls, nodes: Sequence[Node]) -> "Self":
        """Of these nodes, which have one reservation or none."""
        names = {node.name: slurm_name(node) for node in nodes}
        options = {node.name: {key: str(value) for key, value in node.settings.srun.items()} for node in nodes}
        return cls(names, options, nodes[0].settings.slurm_reservation)

    def hold(self, nodes: Sequence[str], until: float, *, ended: Callable[[], bool] = lambda: False) -> Held:
        """See `Holder`."""
        bearers = Counter(self.names[node] for node in nodes)
        unknown = {node: _UNKNOWN for node in nodes if not self.names[node] or bearers[self.names[node]] > 1}
        by_name = {self.names[node]: node for node in nodes if node not in unknown}
        if not by_name:
            return Held((), unknown)
        try:
            partitions, refused = self._free(by_name)
            self._has_asked = self._has_asked or bool(partitions)
            minutes = max(1, math.ceil((until - time.time()) / 60))
            refused |= self._taken({name: by_name[name] for name in partitions}, partitions, minutes, ended)
        except NoAnswer as said:
            partitions, refused = {}, dict.fromkeys(by_name, str(said))
        self._held = {name: node for name, node in by_name.items() if name not in refused}
        self._drained = {name: node for name, node in self._held.items() if name not in partitions}
        return Held(tuple(self._held.values()), unknown | {by_name[name]: why for name, why in refused.items()})

    def lost(self) -> tuple[str, ...]:
        """See `Holder`; a drained node that was resumed is lost too."""
        me, asked = owner(), [name for name in self._held if name not in self._drained]
        try:
            if self.reservation:
                is_kept = any(whose == me for _, whose in _our_reservations(self.reservation))
                ours = set(asked) if is_kept else set()
            else:
                ours = {node for _, whose, node in _our_jobs() if whose == me}
            resumed, busy = self._free(self._drained) if self._drained else ({}, {})
        except NoAnswer:
            return ()
        gone = [name for name in asked if name not in ours]
        return tuple(self._held[name] for name in (*gone, *resumed, *busy))

    def give_back(self) -> str:
        """See `Holder`."""
        if not self._has_asked:
            return ""
        try:
            self._end(owner().__eq__)
        except NoAnswer as said:
            return str(said)
        return ""

    def left_behind(self) -> tuple[str, ...]:
        """See `Holder`."""
        try:
            ended = self._end(has_ended)
            limit = time.monotonic() + EPILOG_S
            while ended and time.monotonic() < limit and any(job in ended for job, _, _ in _our_jobs()):
                time.sleep(1.0)
        except NoAnswer:
            return ()  # what is wrong with Slurm is said where nodes are held
        return ended

    def _end(self, is_wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """End the holds of these owners."""
        jobs = list(dict.fromkeys(job for job, whose, _ in _our_jobs() if is_wanted(whose)))
        if jobs:
            slurm_says("scancel", *jobs)
        found = _our_reservations(self.reservation) if self.reservation else []
        reservations = [name for name, whose in found if is_wanted(whose)]
        for name in reservations:
            slurm_says("scontrol", "delete", f"reservationname={name}")
        return (*jobs, *reservations)

    def _taken(
        self, by_name: Mapping[str, str], partitions: Mapping[str, str], minutes: int, ended: Callable[[], bool]
    ) -> dict[str, str]:
        """Why nodes that are free could not be taken."""
        if self.reservation:
            return self._reserved(by_name, minutes)
        return _allocated({name: self._options(by_name[name], partitions[name]) for name in by_name}, minutes, ended)

    def _options(self, node: str, partition: str) -> dict[str, str]:
        return {**job_options(self.options.get(node, {}), partition), "nodelist": self.names[node]}

    def _free(self, by_name: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The nodes that can be asked for, with the partition of each, and why others cannot; not those in neither.

        These are drained: nothing starts on them anyway, and nothing of ours may on them either.
        """
        states: dict[str, str] = {}
        partitions: dict[str, str] = {}
        for name, partition, up, state in _states(by_name, "%N|%P|%a|%T"):
            states[name] = state
            wanted = self.options.get(by_name.get(name, ""), {}).get("partition", partition.rstrip("*"))
            if partition.rstrip("*") == wanted and up == "up" and (name not in partitions or partition.endswith("*")):
                partitions[name] = wanted
        refused = {name: "Slurm does not know it under this name" for name in by_name if name not in states}
        odd = {name: state for name, state in states.items() if state not in _FREE | _OUT}
        refused |= {name: f"its state in Slurm is {state}" for name, state in odd.items()}
        free = [name for name, state in states.items() if state in _FREE]
        refused |= {name: "no partition of Slurm with it is up" for name in free if name not in partitions}
        return {name: partitions[name] for name in free if name in partitions}, refused

    def _reserved(self, by_name: Mapping[str, str], minutes: int) -> dict[str, str]:
        """Why nodes are not ours in the reservation: a job may have begun just before it."""
        if not by_name:
            return {}
        words = {
            "reservationname": reservation_name(self.reservation),
            "nodes": ",".join(by_name),
            "starttime": "now",
            "duration": str(minutes),
            "flags": "MAINT,IGNORE_JOBS",
            "users": _login(),
        }
        try:
            slurm_says("scontrol", "create", "reservation", *(f"{word}={value}" for word, value in words.items()))
        except NoAnswer as said:
            if said.printed.endswith(_NO_RIGHT):
                return dict.fromkeys(by_name, f"Slurm lets only operators make a reservation ({_NO_RIGHT})")
            raise
        time.sleep(RESERVED_S)
        limit = time.monotonic() + EPILOG_S
        while time.monotonic() < limit and any("completing" in row for row in _states(by_name, "%N|%T")):
            time.sleep(1.0)
        return self._free(by_name)[1]


def busy_nodes(names: Iterable[str]) -> frozenset[str]:
    """Those of Slurm's nodes on which a job runs; none where Slurm does not answer here."""
    try:
        return frozenset(name for name, state in _states(names, "%N|%T") if state in _AT_WORK)
    except NoAnswer:
        return frozenset()


def _allocated(options: Mapping[str, Mapping[str, str]], minutes: int, ended: Callable[[], bool]) -> dict[str, str]:
    """Why nodes could not be allocated. Slurm's own list decides: salloc may have been too slow to say it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        refusals = pool.map(lambda each: "the run was ended" if ended() else _salloc(each, minutes), options.values())
        said = dict(zip(options, refusals, strict=True))
    me = owner()
    ours = [(job, node) for job, whose, node in _our_jobs() if whose == me]
    if waiting := [job for job, node in ours if node not in options]:
        slurm_says("scancel", *waiting)
    got = {node for _, node in ours}
    return {name: why or "Slurm gave no allocation" for name, why in said.items() if name not in got}


def _salloc(own: Mapping[str, str], minutes: int) -> str:
    """Why one node was not allocated; empty if it was."""
    asked = {**own, "nodes": "1", "mem": "0", "time": str(minutes), "immediate": str(IMMEDIATE_S)}
    asked |= {"job-name": NAME, "comment": owner()}
    try:
        slurm_says("salloc", "--no-shell", "--exclusive", *(f"--{option}={value}" for option, value in asked.items()))
    except NoAnswer as refused:
        return str(refused)
    return ""


def _states(names: Iterable[str], form: str) -> list[list[str]]:
    """What sinfo says of nodes, a row for each of their partitions; the state is the last column."""
    found = rows("sinfo", "-h", "-a", "-N", "-n", ",".join(names), "-o", form)
    return [[*row[:-1], row[-1].rstrip(_SIGNS)] for row in found]


def _our_jobs() -> list[tuple[str, str, str]]:
    """Number, owner and node of each job that holds nodes for this login; no node: it waits."""
    found = rows("squeue", "-h", "-a", "-u", _login(), "-n", NAME, "-o", "%i|%k|%N")
    return [(job, whose, node) for job, whose, nodes in found for node in (expand(nodes) if nodes else [""])]


def reservation_name(given: str) -> str:
    """The name of this process's own reservation, which says whose it is: it has no comment before Slurm 23."""
    return ".".join([given, *owner().split()])


def _our_reservations(given: str) -> list[tuple[str, str]]:
    """Name and owner of each reservation that a process of nodegate has made under this name."""
    listed = re.findall(r"^ReservationName=(\S+) ", slurm_says("scontrol", "-o", "show", "reservation"), re.MULTILINE)
    ours = [name for name in listed if name.startswith(f"{given}.") and name.count(".") >= 3]
    return [(name, " ".join(name.removeprefix(f"{given}.").rsplit(".", 2))) for name in ours]


def job_options(own: Mapping[str, str], partition: str) -> dict[str, str]:
    """How a job for a node is asked for: its partition, and the site's account, QOS and the like (nodegate_srun)."""
    return {"partition": partition, **{key: value for key, value in own.items() if key != "mpi"}}


def rows(program: str, *arguments: str) -> list[list[str]]:
    """What one of Slurm's programs lists in columns between |, as its last argument asks. Raises NoAnswer."""
    width = arguments[-1].count("|") + 1
    listed = (line.split("|") for line in slurm_says(program, *arguments).splitlines())
    return [[each.strip() for each in row] for row in listed if len(row) == width]


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def slurm_says(program: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """What one of Slurm's programs prints. Raises NoAnswer."""
    return answer(program, *arguments, limit_s=ANSWER_S, environ=environ)
