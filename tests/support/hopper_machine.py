"""A machine for the PTX of our kernel for Hopper: one block, its warps apart, in numpy.

What an instruction does is written from the PTX ISA: its sections on wgmma (matrix descriptor, register fragments),
on the tensor copies with their swizzle, and on mbarrier. Warps run in a random order; a copy arrives at once, late
(when nobody can go on without it) or at any time between.

What a warp may rely on is kept as a set of events, which barriers hand on: that a copy arrived, that a multiplication
is done. A warp that multiplies must know of the copies it reads; the one that starts a copy must know that all which
read or wrote the place before is over. Sums in registers may be touched only when no multiplication is on its way, and
need a fence before the next.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from support.ptx_machine import SHARED_AT, WARP, Block, Machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.node_side.load.hopper import Map

THREADS = 288
_MAPS_AT = 0x10000
_WIDTHS = {1: 128, 2: 64, 3: 32}  # the swizzle of a descriptor -> bytes of a row
_SWIZZLES = {3: 128}  # the swizzle of a map -> bytes of a row


class Copy(NamedTuple):
    """A copy on its way: which event it is, where it goes, what it brings, which barrier counts it."""

    event: int
    at: int
    data: Any
    barrier: int


class Barrier:
    """An mbarrier: how many arrivals and bytes its phase still waits for, and what those who arrived know."""

    def __init__(self, count: int) -> None:
        self.count = self.left = count
        self.bytes, self.phases = 0, 0
        self.knows: set[int] = set()
        self.over: set[int] = set()

    def goes_on(self) -> bool:
        """Whether this ended its phase."""
        assert self.left >= 0, "more arrivals than the barrier counts"
        if self.left or self.bytes:
            return False
        self.phases, self.left, self.over, self.knows = self.phases + 1, self.count, self.knows, set()
        return True


class HopperMachine(Machine):
    """Global memory and a kernel; `arrival` of copies is early, late or mixed, `seed` orders the warps."""

    def __init__(self, text: str, memory: bytearray, *, arrival: str = "mixed", seed: int = 0) -> None:
        super().__init__(text, memory)
        self.arrival, self.random = arrival, random.Random(seed)  # noqa: S311  the order of warps

    def multiply(
        self, name: str, block: int, blocks: int, params: Mapping[str, int | Map], *, shared: int
    ) -> HopperBlock:
        """Run one block of a grid."""
        body = re.search(rf"\.entry {name}\(.*?\)[^{{]*{{(.*)\n}}", self.text, re.DOTALL)
        assert body
        run = HopperBlock(self, body[1], (block, 0), (blocks, 1), params, shared=shared)
        run.run()
        return run


class HopperBlock(Block):
    """Nine warps, each with what it knows."""

    def __init__(self, machine: Any, body: str, block: Any, blocks: Any, params: Mapping[str, Any], *, shared: int):
        numbers = {name: each for name, each in params.items() if isinstance(each, int)}
        super().__init__(machine, body, block, blocks, numbers, shared=shared + 16, threads=THREADS)
        self.symbols["stages"] = SHARED_AT + 16  # as little aligned as a launch promises
        self.maps = {}
        for number, (name, each) in enumerate(params.items()):
            if not isinstance(each, int):
                self.symbols[name] = _MAPS_AT + 128 * number
                self.maps[_MAPS_AT + 128 * number] = each
        warps = range(THREADS // WARP)
        self.now = 0
        self.knows: list[set[int]] = [set() for _ in warps]
        self.sums: list[Any] = [None for _ in warps]  # what the multiplications on their way will leave
        self.sum_names: list[list[str]] = [[] for _ in warps]
        self.touched = [True for _ in warps]
        self.groups: list[list[int]] = [[] for _ in warps]
        self.uncommitted: list[int] = [0 for _ in warps]
        self.multiplied: list[list[Any]] = [[] for _ in warps]  # descriptors
        self.parked: dict[int, str] = {}
        self.barriers: dict[int, Barrier] = {}
        self.ready_barriers = self.fenced = False
        self.copies: list[Copy] = []
        self.events = 0
        self.brought = np.zeros(self.shared.size, int)  # by which event
        self.readers: list[tuple[int, Any]] = []  # event, 16-byte pieces

    # ---- order ----

    def run(self) -> None:
        """Until every thread has returned."""
        at, done = np.zeros(THREADS, int), len(self.program)
        lanes = np.arange(THREADS) // WARP
        choose = self.machine.random
        while live := [warp for warp in range(THREADS // WARP) if at[lanes == warp].min() < done]:
            free = [warp for warp in live if warp not in self.parked]
            if self.copies and (not free or (self.machine.arrival == "mixed" and choose.random() < 0.3)):
                self._deliver(choose.randrange(len(self.copies)))
            elif not free and any(why == "bar" for why in self.parked.values()):
                self._all_at_barrier(live)
            elif not free:
                self.parked.clear()  # nothing more will come: they count until they give up
            else:
                self._advance(choose.choice(free), at, lanes, choose.randrange(1, 60))
        assert not any(self.groups), "ended before its multiplications"
        self._alike()

    def _advance(self, warp: int, at: Any, lanes: Any, most: int) -> None:
        self.now = warp
        done = len(self.program)
        for _ in range(most):
            mine = np.where(lanes == warp, at, done)
            if warp in self.parked or (where := int(mine.min())) >= done:
                return
            mask = mine == where
            at[mask] += 1
            self._execute(self.program[where], at, mask)

    def _all_at_barrier(self, live: list[int]) -> None:
        assert all(self.parked.get(warp) == "bar" for warp in live), "bar.sync by some warps only"
        self.ready_barriers = self.fenced
        everything = set().union(*self.knows)
        self.knows = [set(everything) for _ in self.knows]
        self.parked.clear()

    def _alike(self) -> None:
        for first in range(0, 8, 4):
            assert all(self.multiplied[first] == self.multiplied[first + each] for each in range(4)), "warps part"

    def step(self, op: str, operands: list[str], mask: Any) -> None:
        name, *modes = op.split(".")
        self.executed[op] = self.executed.get(op, 0) + 1
        if name in ("wgmma", "vote", "shfl", "bar"):
            assert mask.sum() == WARP, f"{op} by some threads of a warp only"
        getattr(self, f"_{name}")(modes, operands, mask)

    def value(self, operand: str, kind: Any) -> Any:
        self._touch(operand)
        return super().value(operand, kind)

    def put(self, name: str, value: Any, mask: Any) -> None:
        self._touch(name)
        super().put(name, value, mask)

    def _touch(self, name: str) -> None:
        if re.fullmatch(r"%c\d+", name):
            assert self.sums[self.now] is None, f"{name} is used while a multiplication is on its way"
            self.touched[self.now] = True

    def _one(self, operand: str, mask: Any, kind: Any = np.uint32) -> int:
        found = set(super().value(operand, kind)[mask].tolist())
        assert len(found) == 1, f"{operand} differs"
        return int(found.pop())

    # ---- warps ----

    def _bar(self, *_: Any) -> None:
        self.parked[self.now] = "bar"

    def _shfl(self, modes: Any, operands: Any, mask: Any) -> None:
        assert modes == ["sync", "idx", "b32"]
        assert operands[2:] == ["0", "31", "0xFFFFFFFF"]
        self.put(operands[0], np.full(THREADS, self.value(operands[1], np.uint32)[mask][0], np.uint32), mask)

    def _vote(self, modes: Any, operands: Any, mask: Any) -> None:
        assert modes == ["sync", "all", "pred"]
        self.registers[operands[0]][mask] = self.registers[operands[1]][mask].all()

    def _and(self, modes: Any, operands: Any, mask: Any) -> None:
        if modes == ["pred"]:
            found = self.registers[operands[1]] & self.registers[operands[2]]
            self.registers[operands[0]][mask] = found[mask]
        else:
            super()._and(modes, operands, mask)

    def _cvta(self, modes: Any, operands: Any, mask: Any) -> None:
        assert modes == ["param", "u64"]
        self.put(operands[0], self.value(operands[1], np.uint64), mask)

    # ---- barriers ----

    def _fence(self, modes: Any, *_: Any) -> None:
        self.fenced |= modes == ["mbarrier_init", "release", "cluster"]

    def _mbarrier(self, modes: Any, operands: Any, mask: Any) -> None:
        at = next(operand for operand in operands if operand.startswith("["))
        address = int(self.address(at)[mask][0])
        assert mask.sum() == 1 or (self.address(at)[mask] == address).all()
        assert address % 8 == 0
        if modes[0] == "init":
            self.barriers[address] = Barrier(int(operands[1]))
            return
        assert self.ready_barriers, "a barrier is used that not everybody knows of"
        barrier = self.barriers[address]
        if modes[0] == "try_wait":
            parity = self._one(operands[2], mask)
            over = barrier.phases & 1 != parity
            self.registers[operands[0]][mask] = over
            if over:
                self.knows[self.now] |= barrier.over
            else:
                self.parked[self.now] = "wait"
            return
        assert modes[0] == "arrive"
        if modes[1] == "expect_tx":
            assert mask.sum() == 1
            barrier.bytes += int(operands[2])
        barrier.left -= int(mask.sum())
        barrier.knows |= self.knows[self.now]
        self._told(barrier)

    def _told(self, barrier: Barrier) -> None:
        if barrier.goes_on():
            self.parked = {warp: why for warp, why in self.parked.items() if why == "bar"}

    # ---- copies ----

    def _cp(self, modes: Any, operands: Any, mask: Any) -> None:
        assert modes[:3] == ["async", "bulk", "tensor"]
        assert mask.sum() == 1, "a copy by several threads"
        to, barrier = (int(self.address(operands[each])[mask][0]) for each in (0, 2))
        source, column, row = re.findall(r"%\w+", operands[1])
        of = self.maps[self._one(source, mask, np.uint64)]
        data = self._box(of, self._one(column, mask), self._one(row, mask))
        assert to % 128 == 0, "a copy to a place that is not aligned"
        assert to >= self.symbols["stages"], "a copy to what is before the block's memory"
        pieces = np.arange(to // 16, (to + data.size) // 16)
        known = self.knows[self.now]
        assert set(np.unique(self.brought[to : to + data.size])) - {0} <= known, "a copy over one not yet known of"
        for event, read in self.readers:
            assert event in known or not np.intersect1d(read, pieces).size, "a copy over what is still read"
        self.readers = [each for each in self.readers if each[0] not in known]
        self.events += 1
        self.brought[to : to + data.size] = self.events
        self.coming[to : to + data.size] = True
        self.copies.append(Copy(self.events, to, self._swizzled(of, to, data), barrier))
        if self.machine.arrival == "early":
            self._deliver(len(self.copies) - 1)

    def _box(self, of: Map, column: int, row: int) -> Any:
        """The bytes of a box, row by row."""
        wide, high = of.box
        assert column + wide <= of.sides[0]
        assert row + high <= of.sides[1]
        size = of.strides[0] // of.sides[0]
        first = of.address + row * of.strides[0] + column * size
        where = first + np.arange(high)[:, None] * of.strides[0] + np.arange(wide * size)
        return self.machine.memory[where].reshape(-1)

    def _swizzled(self, of: Map, to: int, data: Any) -> dict[str, Any]:
        """{"at": where in shared memory each byte goes, "bytes": the bytes}."""
        width = _SWIZZLES.get(of.swizzle, 0)
        where = to + np.arange(data.size)
        return {"at": _swizzle(where, width) if width else where, "bytes": data.copy()}

    def _deliver(self, number: int) -> None:
        copy = self.copies.pop(number)
        self.shared[copy.data["at"]] = copy.data["bytes"]
        self.coming[copy.at : copy.at + len(copy.data["bytes"])] = False
        barrier = self.barriers[copy.barrier]
        barrier.bytes -= len(copy.data["bytes"])
        barrier.knows.add(copy.event)
        self._told(barrier)

    # ---- multiplications ----

    def _wgmma(self, modes: Any, operands: Any, mask: Any) -> None:
        warp = self.now
        if modes[0] == "fence":
            self.touched[warp] = False
        elif modes[0] == "commit_group":
            self.groups[warp].append(self.uncommitted[warp])
            self.uncommitted[warp] = 0
        elif modes[0] == "wait_group":
            while len(self.groups[warp]) > int(operands[0]):
                self.knows[warp].add(self.groups[warp].pop(0))
            if not self.groups[warp] and not self.uncommitted[warp] and self.sums[warp] is not None:
                self._land(warp, mask)
        else:
            assert modes == ["mma_async", "sync", "aligned", "m64n256k16", "f32", "bf16", "bf16"]
            self._multiply(warp, operands, mask)

    def _multiply(self, warp: int, operands: list[str], mask: Any) -> None:
        assert warp < 8, "not a whole warpgroup"
        assert not self.touched[warp], "a multiplication without a fence after the sums were touched"
        assert operands[4:] == ["1", "1", "0", "0"]
        names = operands[0].strip("{}").split(", ")
        assert len(set(names)) == 128
        left, right = (self._one(operands[each], mask, np.uint64) for each in (1, 2))
        adds = bool(self.registers[operands[3]][mask].all())
        assert adds or not self.registers[operands[3]][mask].any()
        self.multiplied[warp].append((left, right, adds))
        a, b = self._matrix(left, 64), self._matrix(right, 256)
        rows, columns = _fragment(warp % 4)
        if self.sums[warp] is None:
            self.sums[warp] = np.stack([self.registers[name][mask] for name in names]).astype(np.float32)
            self.sum_names[warp] = names
        old = self.sums[warp] if adds else np.zeros((128, WARP), np.float32)
        self.sums[warp] = (old + (a @ b.T)[rows, columns]).astype(np.float32)

    def _matrix(self, descriptor: int, rows: int) -> Any:
        """`rows` rows of 16 elements of k, as a descriptor says they lie in shared memory."""
        start, stride = (descriptor >> 0 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4
        assert descriptor >> 49 & 7 == 0, "base offset"
        width = _WIDTHS[descriptor >> 62 & 3]  # 0, no swizzle, is none of our layouts
        assert start % width + 32 <= width, "beyond a row of the swizzle"
        row = np.arange(rows)[:, None]
        where = _swizzle(start + row // 8 * stride + row % 8 * width + np.arange(32), width)
        assert not self.coming[where].any(), "a multiplication before the copy arrived"
        events = set(np.unique(self.brought[where]).tolist())
        assert 0 not in events, "a multiplication of what nobody brought"
        assert events <= self.knows[self.now], "a multiplication of what this warp did not wait for"
        self._reads(np.unique(where // 16), None)
        halves = np.ascontiguousarray(self.shared[where]).view(np.uint16)
        return (halves.astype(np.uint32) << 16).view(np.float32)

    def _reads(self, where: Any, threads: Any) -> None:
        assert threads is None
        if not self.uncommitted[self.now]:
            self.events += 1
            self.uncommitted[self.now] = self.events
        self.readers.append((self.uncommitted[self.now], where))

    def _land(self, warp: int, mask: Any) -> None:
        for name, values in zip(self.sum_names[warp], self.sums[warp], strict=True):
            self.registers[name][mask] = values
        self.sums[warp] = None


def _swizzle(where: Any, width: int) -> Any:
    """Bits 4 and up of an address, as many as a row has pieces of 16 bytes, are mixed with those from bit 7 on."""
    return where ^ ((where >> 7 & (width // 16 - 1)) << 4)


def _fragment(warp: int) -> tuple[Any, Any]:
    """(rows, columns) of the 128 registers (down) of the 32 lanes (across) of a warp."""
    register, lane = np.arange(128)[:, None], np.arange(WARP)[None]
    rows = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
    return rows, 8 * (register // 4) + 2 * (lane % 4) + register % 2
