"""Draws months of a fleet in which some nodes fail again and again: python bench/lemon_nights.py FOLDER [--seed N].

It imports numpy alone: no rule, constant or type of what looks for them. It writes CSV files: which node was looked at
in which night, what failed when and in which nights it was seen, where boards were, and the truth. `bench/lemons.py`
brings them into a fleet's record.

A fleet is 1,250 nodes in racks of eight, each with eight GPUs and eight adapters, for 90 days. A good node has 2 to 7
faults in 1,000 days (drawn for the fleet; nodes differ by a fifth). 24 lemons have 10 to 40 times that: 16 boards, of
which some are moved to another node, and 8 nodes, on any of their parts. One firmware of adapters and one lot of GPUs
are bad (5 to 10 times), and one rack is (8 times). There are outages of two racks at once, jobs whose own errors leave
Xids on the nodes that they run on, nodes that are looked at four times a day, busy nights, boards that are moved or
replaced. These rates and shapes are assumptions from published reports, not measurements of a fleet.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

import numpy as np

NODES, RACK, DAYS, GPUS, NICS = 1250, 8, 90, 8, 8
BOARD_LEMONS, NODE_LEMONS = 16, 8
# kind: part, condition, check, Xid (0: none), how often among the faults of a good node
KINDS = (
    ("GPU", "gpu_lost", "gpu.lost", 79, 20),
    ("GPU", "ecc_uncorrected", "ecc.volatile", 94, 25),
    ("GPU", "gsp_timeout", "kernel_log.xid", 119, 15),
    ("GPU", "gpu_hot", "burn.clock", 0, 10),
    ("NIC", "port_down", "rdma.port_state", 0, 15),
    ("NIC", "nic_flap", "kernel_log.nic_flaps", 0, 5),
    ("host", "machine_check", "host_log.hardware_errors", 0, 10),
)
PROGRAM = (31, 13, 43)  # Xids of jobs' own errors


@dataclass(frozen=True)
class Board:
    """A board in a place, from the first to before the last day. `slot`: "GPU 3", "mlx5_2"."""

    serial: str
    node: str
    slot: str
    first: float
    last: float


@dataclass(frozen=True)
class Fault:
    """What began at a time, in days, and was there for so many. `xid` is 0 where the log has none of it."""

    day: float
    days: float
    node: str
    slot: str
    serial: str
    condition: str
    check: str
    xid: int


@dataclass(frozen=True)
class Look:
    """A run over one node, at a time in days."""

    day: float
    node: str


@dataclass(frozen=True)
class Truth:
    """What is known of a node or board: "board", "node" (lemons), "rack", "firmware", "lot" with its nodes."""

    what: str
    name: str
    node: str


@dataclass
class Drawn:
    """A fleet over its days. `traits` are (node, name, value)."""

    rate: float = 0.0
    boards: list[Board] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)
    traits: list[tuple[str, str, str]] = field(default_factory=list)
    program: list[tuple[float, str, str, int]] = field(default_factory=list)


class _Site:
    """One fleet while it is drawn."""

    def __init__(self, seed: int, nodes: int, days: int) -> None:
        self.rng, self.days, self.drawn = np.random.default_rng([seed, 77]), days, Drawn()
        self.names = [f"gpu{at:04}" for at in range(nodes)]
        self.slots = [*(f"GPU {at}" for at in range(GPUS)), *(f"mlx5_{at}" for at in range(NICS))]
        self.drawn.rate = self.rng.uniform(2, 7) / 1000
        self.times = self.rng.gamma(25.0, 1 / 25.0, nodes)  # a fifth of spread between good nodes
        free = self.rng.permutation(nodes)
        bad_rack = RACK * int(self.rng.integers(nodes // RACK))
        self.bad_rack = set(range(bad_rack, bad_rack + RACK))
        at_lot = int(self.rng.integers(nodes - 60))
        self.bad_lot = set(range(at_lot, at_lot + 60)) - self.bad_rack
        free = [int(at) for at in free if at not in self.bad_rack | self.bad_lot]
        self.bad_firmware, free = set(free[:40]), free[40:]
        self.lemon_boards, free = free[:BOARD_LEMONS], free[BOARD_LEMONS:]
        self.lemon_nodes, self.good = free[:NODE_LEMONS], free[NODE_LEMONS:]
        self.often = set(self.good[:60])  # looked at four times a day
        self.serials: dict[tuple[int, str], str] = {}
        self.count = 0
        self.lemon_slots: dict[int, str] = {}
        self.here_of: dict[tuple[str, str], list[Board]] = {}

    def board(self, at: int, slot: str, lot: str = "") -> str:
        self.count += 1
        if slot.startswith("GPU"):
            lot = lot or ("1659117" if at in self.bad_lot else ("1650222", "1652923", "1653324")[at * 3 // NODES % 3])
            return f"{lot}{self.count:06}"
        return f"b83f:d2{self.count >> 16:02x}:{self.count & 0xFFFF:04x}:a0f0"

    def place(self) -> None:
        """Where boards are: swaps of some good ones, and of a third of the lemons, at some day."""
        self.serials = {(at, slot): self.board(at, slot) for at in range(len(self.names)) for slot in self.slots}
        since = dict.fromkeys(self.serials, 0.0)
        self.lemon_slots = {at: self.slots[int(self.rng.integers(GPUS + 2))] for at in self.lemon_boards}
        for at, slot in self.lemon_slots.items():
            self.drawn.truth.append(Truth("board", self.serials[at, slot], self.names[at]))
        self.drawn.truth += [Truth("node", self.names[at], self.names[at]) for at in self.lemon_nodes]
        moved = [(at, self.lemon_slots[at], self.rng.uniform(20, 70)) for at in self.lemon_boards[: BOARD_LEMONS // 3]]
        moved += [(at, self.slots[int(self.rng.integers(GPUS))], self.rng.uniform(5, 85)) for at in self.good[60:90]]
        for number, (at, slot, day) in enumerate(sorted(moved, key=lambda each: each[2])):
            other = self.good[100 + number]
            for here in (at, other):
                self.drawn.boards.append(
                    Board(self.serials[here, slot], self.names[here], slot, since[here, slot], day)
                )
                since[here, slot] = day
            self.serials[at, slot], self.serials[other, slot] = self.serials[other, slot], self.serials[at, slot]
        for (at, slot), serial in self.serials.items():
            self.drawn.boards.append(Board(serial, self.names[at], slot, since[at, slot], self.days))

    def here(self) -> dict[tuple[str, str], list[Board]]:
        found: dict[tuple[str, str], list[Board]] = {}
        for each in self.drawn.boards:
            found.setdefault((each.node, each.slot), []).append(each)
        return found

    def faults(self) -> None:
        """Faults of good nodes, of lemons, of bad racks, firmwares and lots."""
        shares = np.array([each[4] for each in KINDS]) / sum(each[4] for each in KINDS)
        places, rate = self.here(), self.drawn.rate
        rack_times, firmware_times, lot_times = 8.0, self.rng.uniform(5, 10), self.rng.uniform(5, 10)
        for at in range(len(self.names)):
            of_node = rate * self.times[at] * (rack_times if at in self.bad_rack else 1)
            if at in self.lemon_nodes:
                of_node = rate * self.rng.uniform(10, 40)
            for _ in range(self.rng.poisson(of_node * self.days)):
                self.fault(places, at, int(self.rng.choice(len(KINDS), p=shares)))
            for bad, kinds, times in (
                (self.bad_firmware, (4, 5), firmware_times),
                (self.bad_lot, (0, 1, 2), lot_times),
            ):
                for _ in range(self.rng.poisson(rate * times * self.days) if at in bad else 0):
                    self.fault(places, at, int(self.rng.choice(kinds)))
        for serial in [each.name for each in self.drawn.truth if each.what == "board"]:
            self.board_lemon(serial, rate * self.rng.uniform(10, 40))

    def board_lemon(self, serial: str, rate: float) -> None:
        """Faults of one board, wherever it is; most are of one kind."""
        stays = [each for each in self.drawn.boards if each.serial == serial]
        kinds = [at for at, each in enumerate(KINDS) if (each[0] == "GPU") == stays[0].slot.startswith("GPU")]
        kinds = [at for at in kinds if KINDS[at][0] != "host"]
        usual = int(self.rng.choice(kinds))
        for stay in stays:
            for _ in range(self.rng.poisson(rate * (stay.last - stay.first))):
                kind = usual if self.rng.random() < 0.7 else int(self.rng.choice(kinds))
                self.add(stay, self.rng.uniform(stay.first, stay.last), kind)

    def fault(self, places: dict[tuple[str, str], list[Board]], at: int, kind: int) -> None:
        """One fault of a node, on any of its parts of the kind."""
        part, day = KINDS[kind][0], self.rng.uniform(0, self.days)
        if part == "host":
            self.add(Board("", self.names[at], "", 0, self.days), day, kind)
            return
        slot = f"GPU {self.rng.integers(GPUS)}" if part == "GPU" else f"mlx5_{self.rng.integers(NICS)}"
        stay = next(each for each in places[self.names[at], slot] if each.first <= day < each.last)
        self.add(stay, day, kind)

    def add(self, stay: Board, day: float, kind: int) -> None:
        """It is there until the next reset, or for days until somebody repairs it."""
        _, condition, check, xid, _ = KINDS[kind]
        days = 0.9 if self.rng.random() < 0.7 else 1 + self.rng.geometric(0.4)
        days = min(days, stay.last - day)
        self.drawn.faults.append(Fault(day, days, stay.node, stay.slot, stay.serial, condition, check, xid))

    def outages(self) -> None:
        """A switch that is off for a night takes a port of each node in two racks."""
        for _ in range(3):
            first, day = RACK * int(self.rng.integers(len(self.names) // RACK - 1)), self.rng.uniform(1, self.days - 1)
            slot = f"mlx5_{self.rng.integers(NICS)}"
            for name in self.names[first : first + 2 * RACK]:
                at = int(name[3:])
                serial = next(each.serial for each in self.here_of[name, slot] if each.first <= day < each.last)
                if at not in self.lemon_boards:
                    self.drawn.faults.append(Fault(day, 0.9, name, slot, serial, "port_down", "rdma.port_state", 0))

    def jobs(self) -> None:
        """Jobs with errors of their own on 32 nodes, some of them for days."""
        for _ in range(self.days // 3):
            first, day = int(self.rng.integers(len(self.names) - 32)), self.rng.uniform(0, self.days - 4)
            for again in range(int(self.rng.integers(1, 5))):
                xid = int(self.rng.choice(PROGRAM))
                self.drawn.program += [
                    (day + again, name, f"GPU {self.rng.integers(GPUS)}", xid)
                    for name in self.names[first : first + 32]
                ]

    def looks(self) -> None:
        """A run each night; a tenth of the nodes are busy. Some are looked at four times a day."""
        for day in range(1, self.days + 1):
            for at, name in enumerate(self.names):
                if self.rng.random() < 0.9:
                    self.drawn.looks.append(Look(day + 0.1, name))
                if at in self.often:
                    self.drawn.looks += [Look(day + part, name) for part in (0.35, 0.6, 0.85)]

    def traits(self) -> None:
        """Rack, firmware and driver of each node, and the lot of its GPUs by their numbers."""
        drivers = self.rng.integers(2, size=len(self.names))
        for at, name in enumerate(self.names):
            firmware = "28.43.1014" if at in self.bad_firmware else "28.43.2566"
            self.drawn.traits += [
                (name, "rack", f"r{at // RACK:03}"),
                (name, "firmware MT4129", firmware),
                (name, "driver version", f"580.{drivers[at]}"),
            ]
        for what, bad in (("rack", self.bad_rack), ("firmware", self.bad_firmware), ("lot", self.bad_lot)):
            self.drawn.truth += [Truth(what, what, self.names[at]) for at in sorted(bad)]


def draw(seed: int, nodes: int = NODES, days: int = DAYS) -> Drawn:
    """One fleet; the same for the same seed."""
    site = _Site(seed, nodes, days)
    site.place()
    site.here_of = site.here()
    site.faults()
    site.outages()
    site.jobs()
    site.looks()
    site.traits()
    return site.drawn


def write(drawn: Drawn, folder: Path) -> None:
    """One CSV file for each kind of row."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, rows in ((Board, drawn.boards), (Fault, drawn.faults), (Look, drawn.looks), (Truth, drawn.truth)):
        with (folder / f"{kind.__name__.lower()}s.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[each.name for each in fields(kind)], *map(astuple, rows)])
    for name, head, plain in (
        ("traits", ("node", "name", "value"), drawn.traits),
        ("program_xids", ("day", "node", "slot", "xid"), drawn.program),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *plain])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    drawn = draw(asked.seed)
    write(drawn, asked.folder)
    print(f"{1000 * drawn.rate:.2f} faults in 1,000 node-days, {len(drawn.faults)} faults, {len(drawn.looks)} looks")


if __name__ == "__main__":
    main()
