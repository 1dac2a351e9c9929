"""Buffers of a GPU for copies: one holds a pattern, copies go to the other, and the GPU itself compares the two.

The pattern is the one of the fill kernel (every word a hash of its position), so that a word at a wrong place is
noticed too, and the host can compute what any word must be.
"""

import array
import ctypes
import time
from typing import Callable, Dict, List, Optional, Tuple

from nodegate.node_side.load import cuda, operands, ptx
from nodegate.node_side.load.place import answer_within, answering

_COMPARE_BLOCKS = 1024
CHUNK_S = 0.05  # of copies between two events
FEWEST_CHUNKS = 3
WARM_UP = 0.1  # share of the time whose chunks are dropped, at least the first
MOST_COPIES = 1000  # in a chunk
_NONE = 0xFFFFFFFF
_ALL_BITS = operands.Masks(_NONE, 0, _NONE, 0)
_SAMPLED = 256  # words that the host compares
_OTHER = 0x5A5A5A5A  # what a buffer holds before something is copied to it

Entry = Dict[str, object]
Beside = Callable[[int], None]


class Words:
    """Memory as 32-bit words: filled by a hash, and compared."""

    def __init__(self, api: cuda.Cuda, stream: int) -> None:
        self._cuda, self._stream = api, stream
        module = api.module(ptx.common())
        self._fill, self._compare = (api.kernel(module, name) for name in (ptx.FILL, ptx.COMPARE))

    def fill(self, address: int, size: int, seed: int, masks: operands.Masks) -> None:
        """Queue the writing of `size` bytes."""
        pairs = size // 8
        words = [ctypes.c_uint32(each) for each in (pairs, seed, masks.and0, masks.or0, masks.and1, masks.or1)]
        grid = (pairs + ptx.THREADS - 1) // ptx.THREADS, 1
        args = [ctypes.c_uint64(address), *words]
        self._cuda.launch(self._fill, grid, args, ptx.FILL, stream=self._stream)

    def compare(self, left: int, right: int, size: int, count: int, first: int) -> None:
        """Queue a comparison, which adds to the word at `count` and lowers the one at `first`."""
        args = [ctypes.c_uint64(left), ctypes.c_uint64(right), ctypes.c_uint32(size // 16)]
        args += [ctypes.c_uint64(count), ctypes.c_uint64(first)]
        grid = _COMPARE_BLOCKS, 1
        self._cuda.launch(self._compare, grid, args, ptx.COMPARE, stream=self._stream)


class Buffers:
    """A source with the pattern and a target, both of `size` bytes, in the context of one GPU."""

    def __init__(self, api: cuda.Cuda, pci: str, size: int, answer_limit_s: float) -> None:
        self.cuda, self.size, self.answer_limit_s = api, size, answer_limit_s
        self.device = api.device(pci)
        self.context = api.context(self.device)
        self.stream = api.stream()
        self._events = api.event(), api.event()
        self._words = Words(api, self.stream)
        self.take()
        self._counts = api.allocate(8)

    def give_back(self) -> None:
        """Free source and target; what they held is lost."""
        self.cuda.free(self.source)
        self.cuda.free(self.target)

    def take(self) -> None:
        """Allocate source and target again."""
        self.source, self.target = self.cuda.allocate(self.size), self.cuda.allocate(self.size)

    def fill(self, seed: int) -> None:
        """Write the pattern of this seed to the source."""
        self._words.fill(self.source, self.size, seed, _ALL_BITS)
        self.wait()

    def clear(self) -> None:
        """Write something else to the target, so that a copy which does nothing is noticed."""
        self.cuda.set_words(self.target, _OTHER, self.size // 4, self.stream)
        self.wait()

    def differences(self) -> "Tuple[int, Optional[int]]":
        """(differing words of source and target, the first of them)."""
        self.cuda.set_words(self._counts, 0, 1, self.stream)
        self.cuda.set_words(self._counts + 4, _NONE, 1, self.stream)
        self._words.compare(self.source, self.target, self.size, self._counts, self._counts + 4)
        self.wait()
        with answering(self.answer_limit_s):
            count, first = array.array("I", self.cuda.read(self._counts, 8))
        return count, first if count else None

    def wait(self) -> None:
        """Wait until everything is done that was queued; a GPU that does not answer ends this process."""
        with answering(self.answer_limit_s):
            self.cuda.wait(self.stream)

    def timed(
        self, copy: "Callable[[], None]", seconds: float, moved: int = 0, beside: "Optional[Beside]" = None
    ) -> Entry:
        """Copy repeatedly for a time, and return how fast: GB/s by the GPU's own events, the warm-up left out.

        `moved` are the bytes that one copy counts for, if not those of a buffer; `beside` is another copy, done at the
        same time in the stream that it is given.
        """
        size = moved or self.size
        other = beside and (beside, self.cuda.stream(), self.cuda.event())
        chunks: List[Tuple[float, float]] = []  # end in seconds, GB/s
        began, count, copies = time.monotonic(), 1, 0
        while len(chunks) < FEWEST_CHUNKS or chunks[-1][0] < seconds:
            took = self._chunk(copy, count, other)
            copies += count
            chunks.append((time.monotonic() - began, size * count / took / 1e9))
            count = max(1, min(int(CHUNK_S * count / took), MOST_COPIES))
        cold = max(1, sum(end <= WARM_UP * seconds for end, _ in chunks))
        rates = sorted(rate for _, rate in chunks[min(cold, len(chunks) - 1) :])
        places = {"gb_per_s": len(rates) // 2, "lowest": 0, "highest": -1}
        found = {name: float(f"{rates[at]:.5g}") for name, at in places.items()}
        return dict(found, copies=copies, seconds=round(chunks[-1][0], 3))

    def _chunk(self, copy: "Callable[[], None]", count: int, beside: "Optional[Tuple[Beside, int, int]]") -> float:
        answer_within(self.answer_limit_s)  # queueing may hang too, if the queue is full
        self.cuda.record(self._events[0], self.stream)
        if beside:
            other, stream, done = beside
            self.cuda.call("cuStreamWaitEvent", stream, self._events[0], 0)
            for _ in range(count):
                other(stream)
            self.cuda.record(done, stream)
        for _ in range(count):
            copy()
        if beside:
            self.cuda.call("cuStreamWaitEvent", self.stream, done, 0)
        self.cuda.record(self._events[1], self.stream)
        self.wait()
        return max(self.cuda.elapsed_s(*self._events), 1e-9)


def wrong_in(address: int, size: int, seed: int) -> int:
    """How many of some words in host memory differ from the pattern."""
    step = max(size // 4 // _SAMPLED, 1) | 1
    return sum(word_at(address, at) != operands.word(at, seed) for at in range(0, size // 4, step))


def word_at(address: int, position: int) -> int:
    """A word in host memory."""
    return array.array("I", ctypes.string_at(address + 4 * position, 4))[0]
