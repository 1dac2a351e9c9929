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

OUT, IN, BOTH, INSIDE = "device_to_host", "host_to_device", "both_ways", "device"
ALONE, AT_ONCE = "alone", "at once"
_SEEDS = {ALONE: 0x0C091E51, AT_ONCE: 0x0C091E52}


class Job(NamedTuple):
    """What one GPU is to do; sizes are bytes."""

    slot: int
    uuid: str
    pci: str
    size: int
    host_s: float
    device_s: float
    kernel_s: float
    kernel_bytes: int
    pattern_s: float
    both_s: float
    start_limit_s: float
    answer_limit_s: float


def run(job: Job, turns: steps.Turns) -> Dict[str, str]:
    """Do all copies. Returns {"error": text}."""
    turns.say(job.slot, steps.PREPARING)
    child.emit({"place": place.go_beside(job.pci)})
    place.see_only([job.uuid])
    try:
        answer_within(job.start_limit_s)
        gpu = _Gpu(job, turns)
        answer_within(0)
        gpu.alone()
        gpu.inside()
        if turns.slots > 1:
            gpu.at_once()
    except cuda.CudaError as error:
        return {"error": str(error)}
    finally:
        turns.say(job.slot, steps.ENDED)
    return {"error": ""}


class _Gpu:
    """The GPU with its buffers, and one in pinned host memory."""

    def __init__(self, job: Job, turns: steps.Turns) -> None:
        self.job, self.turns = job, turns
        self.cuda = cuda.Cuda()
        self.buffers = buffers.Buffers(self.cuda, job.pci, job.size, job.answer_limit_s)
        self.host = self.cuda.allocate_host(job.size)

    def alone(self) -> None:
        """To the host and back, while no other GPU does."""
        self.turns.say(self.job.slot, steps.WAITING)
        self.turns.wait([self.turns.watcher(self.job.slot)], steps.WAITING)
        self.turns.wait(range(self.job.slot), steps.INSIDE)
        self.turns.say(self.job.slot, steps.ALONE)
        self.prepare(ALONE)
        self.copy_out(ALONE)
        self.copy_in(ALONE)
        if self.job.both_s:
            self.copy_both()
        self.turns.say(self.job.slot, steps.INSIDE)
        self.compare_host(ALONE)

    def inside(self) -> None:
        """From one place of its memory to another, by the copy engine and by kernels; all of it in a long run."""
        of, job = self.buffers, self.job
        of.clear()
        self._time(INSIDE, ALONE, lambda: self.cuda.copy(of.target, of.source, job.size, of.stream), job.device_s)
        wrong, first = of.differences()
        self._tell(INSIDE, ALONE, wrong, first)
        memory = Memory(of)
        memory.speeds(job.kernel_s, job.kernel_bytes)
        if job.pattern_s:
            of.give_back()
            memory.patterns(job.pattern_s)
            of.take()

    def at_once(self) -> None:
        """To the host, then back, each together with all other GPUs."""
        everyone = range(self.turns.slots)
        self.prepare(AT_ONCE)
        for ready, step, copy in (
            (steps.READY_OUT, steps.OUT, self.copy_out),
            (steps.READY_IN, steps.IN, self.copy_in),
        ):
            self.turns.say(self.job.slot, ready)
            self.turns.wait(everyone, ready)
            self.turns.say(self.job.slot, step)
            copy(AT_ONCE)
        self.turns.say(self.job.slot, steps.ENDED)
        self.compare_host(AT_ONCE)

    def prepare(self, when: str) -> None:
        """A new pattern to send, and none of it in the target."""
        self.buffers.fill(_SEEDS[when])
        self.buffers.clear()

    def copy_out(self, when: str) -> None:
        """The pattern to the host."""
        of, job = self.buffers, self.job
        self._time(OUT, when, lambda: self.cuda.copy_out(self.host, of.source, job.size, of.stream), job.host_s)

    def copy_in(self, when: str) -> None:
        """The pattern from the host."""
        of, job = self.buffers, self.job
        self._time(IN, when, lambda: self.cuda.copy_in(of.target, self.host, job.size, of.stream), job.host_s)

    def copy_both(self) -> None:
        """Half of the pattern to the host and the other half from there at the same time, each by its own stream."""
        of, half = self.buffers, self.job.size // 2
        here, there = of.target + half, self.host + half

        def out(stream: int) -> None:
            self.cuda.copy_out(self.host, of.source, half, stream)

        copy = functools.partial(self.cuda.copy_in, here, there, half, of.stream)
        self._time(BOTH, ALONE, copy, self.job.both_s, 2 * half, out)

    def compare_host(self, when: str) -> None:
        """Whether what went to the host and came back is still the pattern, and where it was lost."""
        seed = _SEEDS[when]
        wrong, first = self.buffers.differences()
        sampled = buffers.wrong_in(self.host, self.job.size, seed)
        if first is None:
            lost_on_way_out = sampled > 0
        else:
            lost_on_way_out = buffers.word_at(self.host, first) != operands.word(first, seed)
        self._tell(OUT if lost_on_way_out else IN, when, max(wrong, sampled), first)

    def _time(self, what: str, when: str, copy: "Callable[[], None]", seconds: float, *more: Any) -> None:
        child.emit({"copy": dict(self.buffers.timed(copy, seconds, *more), what=what, when=when)})

    def _tell(self, what: str, when: str, wrong: int, first: object) -> None:
        data = {"when": when, "what": what, "bytes": self.job.size, "wrong_words": wrong, "first_word": first}
        child.emit({"data": data})
