"""The copies of one GPU, in its own process: to and from the host alone, inside the GPU, then all GPUs at once.

It sends parts during its work, dictionaries with one key ("place", "copy", "data", "memory"), so that what a GPU
did before it hung or failed stays. They are described in docs/reference/copies-document.md.
"""

import functools
from typing import Any, Callable, Dict, NamedTuple

from nodegate.node_side.load import buffers, cuda, operands, place
from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.memory import Memory
from nodegate.node_side.load.place import answer_within
from nodegate.node_side.probe import child

HOST_SHARE, DEVICE_SHARE, PEER_SHARE = 0.1, 0.1, 0.5  # of a GPU's seconds: each host copy (four), inside, its pairs
BOTH_SHARE = 0.05  # in addition: out and in at the same time
KERNEL_SHARE, KERNELS = 0.05, 3  # in addition: each kernel that reads and writes its memory
OUT, IN, BOTH, INSIDE = "device_to_host", "host_to_device", "both_ways", "device"
_TO_HOST, _FROM_HOST, _WITHIN = "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2"
ALONE, AT_ONCE = "alone", "at once"
ALL, RING, NONE = "all", "ring", "none"  # pairs of GPUs
_SEEDS = {ALONE: 0x0C091E51, AT_ONCE: 0x0C091E52}


class Options(NamedTuple):
    """How the copies are done; docs/reference/copies-document.md."""

    seconds: float
    size: int = 512 << 20
    kernel_size: int = 4 << 30
    pattern_s: float = 0.0
    both_ways: bool = False
    peers: str = ALL
    start_limit_s: float = 60.0
    answer_limit_s: float = 20.0


def run(slot: int, uuid: str, pci: str, options: Options, turns: steps.Turns) -> Dict[str, str]:
    """Do all copies of one GPU. Returns {"error": text}."""
    turns.say(slot, steps.PREPARING)
    child.emit({"place": place.go_beside(pci)})
    place.see_only([uuid])
    try:
        answer_within(options.start_limit_s)
        gpu = _Gpu(slot, pci, options, turns)
        answer_within(0)
        gpu.alone()
        gpu.inside()
        if turns.slots > 1:
            gpu.at_once()
    except cuda.CudaError as error:
        return {"error": str(error)}
    finally:
        turns.say(slot, steps.ENDED)
    return {"error": ""}


class _Gpu:
    """The GPU with its buffers, and one in pinned host memory."""

    def __init__(self, slot: int, pci: str, options: Options, turns: steps.Turns) -> None:
        self.slot, self.options, self.turns = slot, options, turns
        self.cuda = cuda.Cuda()
        self.buffers = buffers.Buffers(self.cuda, pci, options.size, options.answer_limit_s)
        self.host = self.cuda.allocate_host(options.size)
        self.copies = {
            OUT: lambda of: self.cuda.call(_TO_HOST, self.host, of.source, options.size, of.stream),
            IN: lambda of: self.cuda.call(_FROM_HOST, of.target, self.host, options.size, of.stream),
            INSIDE: lambda of: self.cuda.call(_WITHIN, of.target, of.source, options.size, of.stream),
        }

    def alone(self) -> None:
        self.turns.say(self.slot, steps.WAITING)
        self.turns.wait([self.turns.watcher(self.slot)], steps.WAITING)
        self.turns.wait(range(self.slot), steps.INSIDE)
        self.turns.say(self.slot, steps.ALONE)
        self.prepare(ALONE)
        self.copy(OUT, ALONE)
        self.copy(IN, ALONE)
        if self.options.both_ways:
            self.copy_both()
        self.turns.say(self.slot, steps.INSIDE)
        self.compare_host(ALONE)

    def inside(self) -> None:
        """From one place of its memory to another, by the copy engine and by kernels; all of it in a long run."""
        of, options = self.buffers, self.options
        of.clear()
        self.copy(INSIDE, ALONE, DEVICE_SHARE)
        wrong, first = of.differences()
        self._tell(INSIDE, ALONE, wrong, first)
        memory = Memory(of)
        memory.speeds(KERNEL_SHARE * options.seconds, options.kernel_size)
        if options.pattern_s:
            of.give_back()
            memory.patterns(options.pattern_s)
            of.take()

    def at_once(self) -> None:
        everyone = range(self.turns.slots)
        self.prepare(AT_ONCE)
        for ready, step, what in ((steps.READY_OUT, steps.OUT, OUT), (steps.READY_IN, steps.IN, IN)):
            self.turns.say(self.slot, ready)
            self.turns.wait(everyone, ready)
            self.turns.say(self.slot, step)
            self.copy(what, AT_ONCE)
        self.turns.say(self.slot, steps.ENDED)
        self.compare_host(AT_ONCE)

    def prepare(self, when: str) -> None:
        """A new pattern to send, and none of it in the target."""
        self.buffers.fill(_SEEDS[when])
        self.buffers.clear()

    def copy(self, what: str, when: str, share: float = HOST_SHARE) -> None:
        self._time(what, when, functools.partial(self.copies[what], self.buffers), share)

    def copy_both(self) -> None:
        """Half of the pattern to the host and the other half from there at the same time, each by its own stream."""
        of, half = self.buffers, self.options.size // 2
        here, there = of.target + half, self.host + half
        out = functools.partial(self.cuda.call, _TO_HOST, self.host, of.source, half)
        copy = functools.partial(self.cuda.call, _FROM_HOST, here, there, half, of.stream)
        self._time(BOTH, ALONE, copy, BOTH_SHARE, 2 * half, out)

    def compare_host(self, when: str) -> None:
        """Whether what went to the host and came back is still the pattern, and where it was lost."""
        seed = _SEEDS[when]
        wrong, first = self.buffers.differences()
        sampled = buffers.wrong_in(self.host, self.options.size, seed)
        lost_on_way_out = sampled > 0
        if first is not None:
            lost_on_way_out = buffers.word_at(self.host, first) != operands.word(first, seed)
        self._tell(OUT if lost_on_way_out else IN, when, max(wrong, sampled), first)

    def _time(self, what: str, when: str, copy: "Callable[[], None]", share: float, *more: Any) -> None:
        seconds = share * self.options.seconds
        child.emit({"copy": dict(self.buffers.timed(copy, seconds, *more), what=what, when=when)})

    def _tell(self, what: str, when: str, wrong: int, first: object) -> None:
        data = {"when": when, "what": what, "bytes": self.options.size, "wrong_words": wrong, "first_word": first}
        child.emit({"data": data})
