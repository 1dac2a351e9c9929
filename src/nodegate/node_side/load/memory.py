"""The memory of one GPU by nodegate's own kernels: how fast it is, and whether all of it holds what is written."""

import array
import ctypes
import time
from typing import Any, Dict, List, NamedTuple

from nodegate.node_side.load import cuda
from nodegate.node_side.load import memory_kernels as kernels
from nodegate.node_side.load.buffers import Buffers
from nodegate.node_side.load.place import answer_within, answering
from nodegate.node_side.probe import child

OUT_OF_MEMORY = 2
_SEED, _OTHER, _FLIP = 0x0C091E54, 0x0C091E55, 0xFFFFFFFF
_NOTHING = 0x5A5A5A5A
_KEPT = 8  # wrong words of a GPU that are sent
_TRIES = 8
_ROUND = 1 << 16
_HUNDREDTH = 100


class Pass(NamedTuple):
    """One pattern: all of the memory is written, then all of it is checked."""

    rule: str
    key: int
    flip: int

    def __str__(self) -> str:
        turned = ", inverted" if self.flip else ""
        return {kernels.WALK: f"bit {self.key} walking", kernels.HASH: "hashes"}.get(self.rule, "addresses") + turned


PASSES = [Pass(kernels.ADDRESS, 0, flip) for flip in (0, _FLIP)]
PASSES += [Pass(kernels.HASH, _SEED, flip) for flip in (0, _FLIP)]
PASSES += [Pass(kernels.WALK, key, flip) for key in range(32) for flip in (0, _FLIP)]


class Memory:
    """Our kernels on the GPU of some buffers."""

    def __init__(self, of: Buffers) -> None:
        self.of, self.cuda = of, of.cuda
        answer_within(of.answer_limit_s)
        module = self.cuda.module(kernels.text())
        patterns = [("write", rule) for rule in kernels.RULES]
        patterns += [("check", rule) for rule in (*kernels.RULES, kernels.TRIAD)]
        self._kernels = {
            kernels.name(*each): self.cuda.kernel(module, kernels.name(*each))
            for each in [(kernels.READ,), (kernels.COPY,), (kernels.TRIAD,), *patterns]
        }
        self.blocks = kernels.BLOCKS * self.cuda.attribute(of.device, cuda.MULTIPROCESSORS)
        self._sums_bytes = 4 * kernels.THREADS * self.blocks
        self._sums = self.cuda.allocate(self._sums_bytes)
        answer_within(0)

    def speeds(self, seconds: float, most: int) -> None:
        """Read, copy and triad for so many seconds each, of up to so many bytes; sends each rate and what was right."""
        most = min(most, kernels.MOST_QUADS * kernels.VECTOR)  # one piece: its sums are those of the whole
        size = min(most, self.cuda.memory()[0] // 4) // kernels.TILE * kernels.TILE
        if not size:
            raise cuda.CudaError("no room", OUT_OF_MEMORY, f"{self.cuda.memory()[0]} bytes of memory are free")
        answer_within(self.of.answer_limit_s)
        first, second, target = (self.cuda.allocate(size) for _ in range(3))
        self._write(first, size, Pass(kernels.HASH, _SEED, 0))
        self._write(second, size, Pass(kernels.HASH, _OTHER, 0))
        self._read(first, size, seconds)
        for what, addresses in ((kernels.COPY, [first, target]), (kernels.TRIAD, [first, second, target])):
            self.cuda.set_words(target, _NOTHING, size // 4, self.of.stream)
            self._timed(what, addresses, size, seconds)
            rule = Pass(kernels.TRIAD, _SEED, _OTHER) if what == kernels.TRIAD else Pass(kernels.HASH, _SEED, 0)
            self._tell(what, size, *_together(self._check(target, size, rule)))
        for each in (first, second, target):
            self.cuda.free(each)

    def _read(self, first: int, size: int, seconds: float) -> None:
        """The sum of all that was read must be that of what was written, as often as it was read."""
        found = self._check(first, size, Pass(kernels.HASH, _SEED, 0))
        once = self._sum()
        self.cuda.set_words(self._sums, 0, self._sums_bytes // 4, self.of.stream)
        times = self._timed(kernels.READ, [first, self._sums], size, seconds)
        words, at = _together(found)
        lost = (self._sum() - times * once) % (1 << 32) != 0
        self._tell(kernels.READ, size, words or int(lost), at)

    def _timed(self, what: str, addresses: "List[int]", size: int, seconds: float) -> int:
        """Send the rate of a kernel, all bytes that it moves counted; returns how often it ran."""
        tiles = size // kernels.TILE
        args: List[Any] = [ctypes.c_uint64(each) for each in addresses]
        args.append(ctypes.c_uint32(tiles))
        grid, moved = (min(self.blocks, tiles), 1), kernels.OPERANDS[what] * size
        found = self.of.timed(lambda: self._launch(kernels.name(what), grid, args), seconds, moved)
        child.emit({"copy": dict(found, what=what, when="alone", bytes=size)})
        return int(str(found["copies"]))

    def _tell(self, what: str, size: int, wrong: int, first: object) -> None:
        data = {"when": "alone", "what": what, "bytes": size, "wrong_words": wrong, "first_word": first}
        child.emit({"data": data})

    # ---- patterns ----

    def patterns(self, seconds: float) -> None:
        """Write and check all free memory, pattern after pattern, for so many seconds at most; sends how far it is."""
        began = time.monotonic()
        size = self._allocate()
        tested: Dict[str, Any] = {"bytes": size, "total_bytes": self.cuda.memory()[1], "passes": 0}
        tested.update(planned=len(PASSES), seconds=0.0, wrong_words=0, bits=0, wrong=[])
        child.emit({"memory": tested})
        for each in PASSES:
            if time.monotonic() - began > seconds:
                break
            self._write(self._block, size, each)
            for piece in self._check(self._block, size, each):
                tested["wrong_words"] += piece.words
                tested["bits"] |= piece.bits
                kept = [[str(each), 4 * wrong.number, wrong.expected, wrong.found] for wrong in piece.kept]
                tested["wrong"] = (tested["wrong"] + kept)[:_KEPT]
            tested.update(passes=tested["passes"] + 1, seconds=round(time.monotonic() - began, 2))
            child.emit({"memory": tested})
        with answering(self.of.answer_limit_s):
            self.cuda.free(self._block)

    def _allocate(self) -> int:
        """All free memory but a hundredth, as one piece; returns its bytes."""
        size = self.cuda.memory()[0] * (_HUNDREDTH - 1) // _HUNDREDTH // _ROUND * _ROUND
        for left in reversed(range(_TRIES)):
            answer_within(self.of.answer_limit_s)
            try:
                self._block = self.cuda.allocate(size)
            except cuda.CudaError as error:
                size = size * (_HUNDREDTH - 2) // _HUNDREDTH // _ROUND * _ROUND
                if error.number != OUT_OF_MEMORY or not left or not size:
                    raise
            else:
                break
        answer_within(0)
        return size

    def _write(self, address: int, size: int, rule: Pass) -> None:
        for at, quads in _pieces(size):
            self._pattern("write", address + at, at // 4, quads, rule)
        self.of.wait()

    def _check(self, address: int, size: int, rule: Pass) -> "List[kernels.Found]":
        """What is wrong, piece by piece; the sums of what should be there are those of the last."""
        pieces = _pieces(size)
        room = len(pieces) * kernels.FOUND_BYTES
        found = self.cuda.allocate(room)
        self.cuda.set_words(found, 0, room // 4, self.of.stream)
        self.cuda.set_words(self._sums, 0, self._sums_bytes // 4, self.of.stream)
        for number, (at, quads) in enumerate(pieces):
            self._pattern("check", address + at, at // 4, quads, rule, found + number * kernels.FOUND_BYTES)
        self.of.wait()
        with answering(self.of.answer_limit_s):
            words = array.array("I", self.cuda.read(found, room)).tolist()
            self.cuda.free(found)
        each = kernels.FOUND_BYTES // 4
        return [kernels.found_in(words[number * each :][:each]) for number in range(len(pieces))]

    def _pattern(  # noqa: PLR0917 - what the kernels take, in their order
        self, kernel: str, address: int, first: int, quads: int, rule: Pass, found: int = 0
    ) -> None:
        args: List[Any] = [ctypes.c_uint64(address), ctypes.c_uint64(first)]
        args += [ctypes.c_uint32(each) for each in (quads, rule.key, rule.flip)]
        args += [ctypes.c_uint64(each) for each in (found, self._sums) if found]
        self._launch(kernels.name(kernel, rule.rule), (min(self.blocks, -(-quads // kernels.THREADS)), 1), args)

    def _launch(self, name: str, grid: "tuple[int, int]", args: "List[Any]") -> None:
        self.cuda.launch(self._kernels[name], grid, args, name, stream=self.of.stream)

    def _sum(self) -> int:
        with answering(self.of.answer_limit_s):
            return sum(array.array("I", self.cuda.read(self._sums, self._sums_bytes)))


def _pieces(size: int) -> "List[tuple[int, int]]":
    """(offset, quads) of each launch: a kernel counts its quads and their words with 32 bits."""
    most = kernels.MOST_QUADS * kernels.VECTOR
    return [(at, min(size - at, most) // kernels.VECTOR) for at in range(0, size, most)]


def _together(found: "List[kernels.Found]") -> "tuple[int, object]":
    """(wrong words, the number of the first that was kept) of all pieces."""
    numbers = [each.number for piece in found for each in piece.kept]
    return sum(piece.words for piece in found), min(numbers, default=None)
