"""A machine for the PTX that our kernels use: one block of threads in numpy, checked for races in shared memory.

What an instruction does is written from the PTX ISA (its sections on mma fragments, ldmatrix and cp.async), not from
the kernels. cp.async arrives when it is waited for (`late`) or at once. Between two barriers no thread may read a byte
of shared memory that another wrote, nor write one that another read or wrote, and none may read what a copy has not
brought yet.
"""

import operator
import re
from typing import Any

import numpy as np

WARP = 32
SHARED_AT = 1024
_TYPES: dict[str, Any] = {"b32": np.uint32, "u32": np.uint32, "s32": np.int32, "b64": np.uint64, "u64": np.uint64}
_TYPES |= {"f32": np.float32, "f64": np.float64, "pred": np.bool_}
_ARITHMETIC: dict[str, Any] = {
    **{name: getattr(operator, name) for name in ("add", "mul", "neg", "xor")},
    "and": operator.and_,
    "or": operator.or_,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "min": np.minimum,
    **dict.fromkeys(("fma", "mad"), lambda a, b, c: a * b + c),
}
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([\w.]+)\s*(.*)", re.DOTALL)


class Machine:
    """Global memory and the kernels of one PTX text."""

    def __init__(self, text, memory, *, late=True):
        self.text, self.late = text, late
        self.memory = np.frombuffer(memory, dtype=np.uint8)

    def launch(self, name, block, blocks, params, *, shared=0):
        """Run one block of a grid. Addresses are offsets into the memory."""
        head, body = re.search(rf"\.entry {name}\((.*?)\)[^{{]*{{(.*?)\n}}", self.text, re.DOTALL).groups()
        names = re.findall(r"\.param \.\w+ (\w+)", head)
        Block(self, body, block, blocks, dict(zip(names, params, strict=True)), shared=shared).run()


class Block:
    """256 threads in step; where they part, those that are furthest behind go on."""

    def __init__(self, machine, body, block, blocks, params, *, shared):
        self.machine, self.params, self.threads = machine, params, 256
        self.registers: dict[str, Any] = {}
        self.symbols = {"tiles": SHARED_AT, "stages": SHARED_AT}
        self.special = {"%ctaid.x": block[0], "%ctaid.y": block[1], "%nctaid.x": blocks[0], "%ntid.x": self.threads}
        statements = [part.strip() for part in re.sub(r"(?m)^(\w+):", r"\1:;", body).split(";") if part.strip()]
        self.program = [part for part in statements if not part.startswith((".reg", ".shared"))]
        self.labels = {part[:-1]: at for at, part in enumerate(self.program) if part.endswith(":")}
        for part in statements:
            if part.startswith(".reg"):
                self._declare(part)
            if part.startswith(".shared"):
                shared = int(part.split("[")[1].rstrip("]"))
        self.shared = np.zeros(SHARED_AT + shared, np.uint8)
        self.wrote = np.full((2, self.shared.size), -1)  # in which epoch, by which thread
        self.read = np.full((2, self.shared.size), -1)  # -2: by several
        self.coming = np.zeros(self.shared.size, bool)
        self.epoch, self.groups, self.group = 0, [], []

    def _declare(self, part):
        kind, names = part.split(None, 2)[1:]
        for name, count in re.findall(r"(%\w+)(?:<(\d+)>)?", names):
            for each in [name] if not count else [f"{name}{i}" for i in range(int(count))]:
                self.registers[each] = np.zeros(self.threads, _TYPES[kind[1:]])

    def run(self):
        """Until every thread has returned."""
        at = np.zeros(self.threads, int)
        done = len(self.program)
        while (now := int(at.min())) < done:
            mask = at == now
            at[mask] += 1
            text = self.program[now]
            if text.endswith(":"):
                continue
            negated, guard, op, rest = _INSTRUCTION.fullmatch(text).groups()
            if guard:
                mask = mask & (self.registers[guard] ^ bool(negated))
            if op == "bra":
                at[mask] = self.labels[rest]
            elif op == "ret":
                at[mask] = done
            elif mask.any():
                self.step(op, [part.strip() for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)], mask)

    def step(self, op, operands, mask):
        name, *modes = op.split(".")
        if name in ("bar", "ldmatrix", "mma"):
            assert mask.all(), f"{op} by some threads only"
        if modes[:1] == ["wide"]:
            self._wide(operands, mask)
        elif name in _ARITHMETIC:
            kind = _TYPES[modes[-1]]
            given = (self.value(each, kind) for each in operands[1:])
            self.put(operands[0], _ARITHMETIC[name](*given).astype(kind), mask)
        else:
            getattr(self, f"_{name}")(modes, operands, mask)

    def value(self, operand, kind):
        if operand in self.registers:
            return self.registers[operand].view(kind) if self.registers[operand].dtype != np.bool_ else None
        if operand == "%tid.x":
            return np.arange(self.threads, dtype=kind)
        if operand.startswith("0f"):
            return np.uint32(int("0x" + operand[2:], 0)).view(np.float32)
        if operand.startswith("0d"):
            return np.uint64(int("0x" + operand[2:], 0)).view(np.float64)
        number = self.special.get(operand, self.symbols.get(operand))
        return np.full(self.threads, int(operand, 0) if number is None else number, dtype=kind)

    def put(self, name, value, mask):
        register = self.registers[name]
        raw = np.broadcast_to(value, register.shape)
        assert raw.dtype.itemsize == register.dtype.itemsize, (name, raw.dtype, register.dtype)
        register[mask] = raw[mask].view(register.dtype)

    def address(self, operand):
        name, _, offset = operand.strip("[]").partition("+")
        return self.registers[name].astype(np.int64) + int(offset or 0)

    # ---- arithmetic ----

    def _mov(self, modes, operands, mask):
        self.put(operands[0], np.broadcast_to(self.value(operands[1], _TYPES[modes[0]]), (self.threads,)), mask)

    def _wide(self, operands, mask):
        wide = [self.value(each, np.uint32).astype(np.uint64) for each in operands[1:]]
        self.put(operands[0], wide[0] * wide[1], mask)

    def _setp(self, modes, operands, mask):
        left, right = (self.value(each, _TYPES[modes[1]]) for each in operands[1:])
        found = {"ge": left >= right, "lt": left < right, "eq": left == right}[modes[0]]
        self.registers[operands[0]][mask] = found[mask]

    def _cvt(self, modes, operands, mask):
        if modes == ["u64", "u32"]:
            return self.put(operands[0], self.value(operands[1], np.uint32).astype(np.uint64), mask)
        if modes == ["u32", "u64"]:
            return self.put(operands[0], self.value(operands[1], np.uint64).astype(np.uint32), mask)
        upper, lower = (self.value(each, np.float32) for each in operands[1:])
        assert "bf16x2" in modes
        return self.put(operands[0], to_bf16(lower).astype(np.uint32) | to_bf16(upper).astype(np.uint32) << 16, mask)

    # ---- memory ----

    def _ld(self, modes, operands, mask):
        kind = _TYPES[modes[-1]]
        if modes[0] == "param":
            return self.put(operands[0], np.full(self.threads, self.params[operands[1].strip("[]")], kind), mask)
        names = operands[0].strip("{}").split(", ")
        size = np.dtype(kind).itemsize
        taken = self._take(modes[0], self.address(operands[1]), size * len(names), mask)
        for name, part in zip(names, np.split(taken, len(names), axis=1), strict=True):
            self.put(name, np.ascontiguousarray(part).view(kind)[:, 0], mask)
        return None

    def _st(self, modes, operands, mask):
        kind = _TYPES[modes[-1]]
        parts = [self.value(name, kind).reshape(-1, 1).view(np.uint8) for name in operands[1].strip("{}").split(", ")]
        self._give(modes[0], self.address(operands[0]), np.concatenate(parts, axis=1), mask)

    def _red(self, modes, operands, mask):
        at = int(self.address(operands[0])[mask][0])
        cell, values = self.machine.memory[at : at + 4].view(np.uint32), self.value(operands[1], np.uint32)[mask]
        several = {"add": lambda: cell[0] + values.sum(), "min": lambda: min(cell[0], values.min())}
        several["or"] = lambda: np.bitwise_or.reduce([cell[0], *values])
        cell[0] = several[modes[1]]()

    def _atom(self, modes, operands, mask):
        assert modes == ["global", "add", "u32"]
        at = int(self.address(operands[1])[mask][0])
        cell, values = self.machine.memory[at : at + 4].view(np.uint32), self.value(operands[2], np.uint32)
        before = np.zeros(self.threads, np.uint32)
        before[mask] = cell[0] + np.cumsum(values[mask], dtype=np.uint32) - values[mask]
        cell[0] += values[mask].sum()
        self.put(operands[0], before, mask)

    def _take(self, space, at, size, mask):
        self._check_aligned(at, size, mask)
        where = np.where(mask, at, SHARED_AT if space == "shared" else 0)[:, None] + np.arange(size)
        if space == "global":
            return self.machine.memory[where]
        self._reads(where[mask], np.flatnonzero(mask)[:, None])
        return self.shared[where]

    def _give(self, space, at, data, mask):
        size = data.shape[1]
        self._check_aligned(at, size, mask)
        where = at[mask][:, None] + np.arange(size)
        memory = self.shared if space == "shared" else self.machine.memory
        assert where.min() >= 0
        assert where.max() < memory.size, "beyond memory"
        if space == "shared":
            self._writes(where, np.flatnonzero(mask)[:, None])
        memory[where] = data[mask]

    def _check_aligned(self, at, size, mask):
        assert not (at[mask] % size).any(), "not aligned"

    def _reads(self, where, threads):
        """`threads` each read a row of `where`."""
        assert not self.coming[where].any(), "read before the copy arrived"
        epochs, writers = self.wrote[:, where]
        assert not ((epochs == self.epoch) & (writers != threads)).any(), "read without a barrier after the write"
        several = (self.read[0, where] == self.epoch) & (self.read[1, where] != threads)
        self.read[0, where], self.read[1, where] = self.epoch, threads
        several |= self.read[1, where] != threads  # of those that read a byte now, one was noted
        self.read[1, where[several]] = -2

    def _writes(self, where, threads):
        """`threads` each write a row of `where`."""
        assert not self.coming[where].any(), "written while a copy comes"
        for epochs, others in (self.wrote[:, where], self.read[:, where]):
            assert not ((epochs == self.epoch) & (others != threads)).any(), "written without a barrier before"
        self.wrote[0, where], self.wrote[1, where] = self.epoch, threads
        assert (self.wrote[1, where] == threads).all(), "written by two threads"

    def _bar(self, *_):
        self.epoch += 1

    def _cp(self, modes, operands, mask):
        if "commit_group" in modes:
            self.groups.append(self.group)
            self.group = []
        elif "wait_all" in modes:
            self._arrive(0)
        elif "wait_group" in modes:
            self._arrive(int(operands[0]))
        else:
            assert operands[2] == "16"
            to, source = self.address(operands[0]), self.address(operands[1])
            self._check_aligned(to, 16, mask)
            self._check_aligned(source, 16, mask)
            for thread in np.flatnonzero(mask):
                where, data = slice(to[thread], to[thread] + 16), slice(source[thread], source[thread] + 16)
                self._writes(np.arange(where.start, where.stop)[None], thread)
                self.coming[where] = True
                if not self.machine.late:
                    self.shared[where] = self.machine.memory[data]
                self.group.append((where, data, thread))

    def _arrive(self, left):
        while len(self.groups) > left:
            for where, data, thread in self.groups.pop(0):
                self.shared[where], self.coming[where] = self.machine.memory[data], False
                self.wrote[0, where], self.wrote[1, where] = self.epoch, thread

    # ---- warps ----

    def _ldmatrix(self, modes, operands, mask):
        rows = self._take("shared", self.address(operands[1]), 16, mask).reshape(-1, 4, 8, 4, 4)  # warp, matrix, row
        for matrix, name in enumerate(operands[0].strip("{}").split(", ")):
            words = np.ascontiguousarray(rows[:, matrix].reshape(self.threads, 4)).view(np.uint32)[:, 0]
            self.put(name, words, mask)

    def _mma(self, modes, operands, mask):
        sums, left, right = (operands[each].strip("{}").split(", ") for each in (0, 1, 2))
        assert operands[3] == operands[0]
        assert "m16n8k16" in modes
        assert "bf16" in modes
        a, b = (np.zeros((self.threads // WARP, size, 16)) for size in (16, 8))
        lane = np.arange(WARP)
        group, in_group = lane // 4, lane % 4
        for number, name in enumerate(left):
            for element, values in enumerate(_elements(self.registers[name])):
                column = in_group * 2 + element + 8 * (number >= 2)
                a[:, group + 8 * (number % 2), column] = values.reshape(-1, WARP)
        for number, name in enumerate(right):
            for element, values in enumerate(_elements(self.registers[name])):
                b[:, group, in_group * 2 + element + 8 * number] = values.reshape(-1, WARP)
        product = a @ b.transpose(0, 2, 1)
        for number, name in enumerate(sums):
            part = product[:, group + 8 * (number // 2), in_group * 2 + number % 2].reshape(-1)
            self.put(name, (self.registers[name] + part).astype(np.float32), mask)


def to_bf16(values):
    """Rounded to nearest, ties to even: the upper half of the word."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _elements(words):
    """The bf16 values in a register, the lowest first."""
    return [(words << 16).view(np.float32), (words & np.uint32(0xFFFF0000)).view(np.float32)]
