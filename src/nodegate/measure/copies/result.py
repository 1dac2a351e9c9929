"""The copies of a node: the first measurement and those of a suspect, and nvbandwidth's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nodegate.errors import CannotMeasure
from nodegate.measure.copies import document as copies_document
from nodegate.measure.copies.document import (
    ALONE,
    AT_ONCE,
    BOTH,
    BY_KERNELS,
    COPY,
    IN,
    INSIDE,
    OUT,
    READ,
    TRIAD,
    CopiesDocument,
    Copy,
    GpuCopies,
    Pair,
)
from nodegate.measure.own_program import by_index, read_attempts
from nodegate.measure.program_run import check_end, reason
from nodegate.metric import BOUNCE, Metric, joined
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.tools import nvbandwidth
from nodegate.tools.nvbandwidth import NvBandwidth
from nodegate.unknown import Unknown, value_or

OWN, OTHER = "copies", "nvbandwidth"
DEVICE = "memory.device_gb_per_s"
BY_READ, BY_COPY, BY_TRIAD = "memory.read_gb_per_s", "memory.copy_gb_per_s", "memory.triad_gb_per_s"
KERNELS = BY_READ, BY_COPY, BY_TRIAD
TO_DEVICE, TO_HOST = "memory.host_to_device_gb_per_s", "memory.device_to_host_gb_per_s"
TO_DEVICE_AT_ONCE = "memory.host_to_device_at_once_gb_per_s"
BOTH_WAYS = "memory.host_both_ways_gb_per_s"
TO_HOST_AT_ONCE = "memory.device_to_host_at_once_gb_per_s"
PEER = "memory.peer_gb_per_s"
TOOL = "nodegate copies"
_BOTH = 2  # a copy inside a GPU reads each byte and writes it
_OF_COPY = {
    (IN, ALONE): TO_DEVICE,
    (OUT, ALONE): TO_HOST,
    (IN, AT_ONCE): TO_DEVICE_AT_ONCE,
    (OUT, AT_ONCE): TO_HOST_AT_ONCE,
    (BOTH, ALONE): BOTH_WAYS,
    (INSIDE, ALONE): DEVICE,
    (READ, ALONE): BY_READ,
    (COPY, ALONE): BY_COPY,
    (TRIAD, ALONE): BY_TRIAD,
}
_OF_CASE = {"host_to_device_memcpy_ce": TO_DEVICE, "device_to_host_memcpy_ce": TO_HOST}
PEER_CASE = "device_to_device_memcpy_write_ce"


@dataclass(frozen=True)
class Copies:
    """The copies of a node.

    `runs` are the attempts with a document, in order; `failed` says why others have none. `others` are the runs of
    nvbandwidth, or why there is no output; none if it is not installed or the run was short.
    """

    runs: tuple[CopiesDocument, ...]
    failed: tuple[CannotMeasure, ...]
    others: tuple[NvBandwidth | CannotMeasure, ...]

    @cached_property
    def gpus(self) -> Mapping[int, tuple[GpuCopies, ...]]:
        """What each GPU did in each attempt, by its NVML index."""
        return by_index(gpu for each in self.runs for gpu in each.gpus)

    @cached_property
    def pairs(self) -> Mapping[tuple[int, int], tuple[Pair, ...]]:
        """The copies of each pair of GPUs, (from, to) by NVML index, in each attempt: the whole matrix."""
        found: dict[tuple[int, int], tuple[Pair, ...]] = {}
        for document in self.runs:
            for pair in document.pairs:
                key = pair.source, pair.target
                found[key] = (*found.get(key, ()), pair)
        return found

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Host copies alone and at once, memory and the lowest peer of each GPU; then nvbandwidth's numbers."""
        singles = [each for document in self.runs for each in _metrics_of(document)]
        for other in self.others:
            if not isinstance(other, CannotMeasure):
                singles += _metrics_of_other(other, self.runs)
        return joined(singles)

    def named(self, name: str, tool: str = TOOL) -> tuple[Metric, ...]:
        """The metrics of one name that one tool measured."""
        return tuple(each for each in self.metrics if each.name == name and each.conditions.get("tool") == tool)

    def best(self, pair: tuple[int, int]) -> float | None:
        """The best rate of a pair over all attempts, in GB/s."""
        rates = [each.gb_per_s for each in self.pairs.get(pair, ()) if each.direct and not each.error]
        return max((rate for rate in rates if not isinstance(rate, Unknown)), default=None)


def parse(attempts: Sequence[Attempt]) -> Copies:
    """The result of the attempts on one node.

    Raises:
        CannotMeasure: none of them has a document; the last reason.
    """
    nothing = CannotMeasure("copies not run", next_step="measure this node again")
    runs, failed, others = read_attempts(attempts, _document, beside=OTHER, nothing=nothing)
    return Copies(tuple(runs), tuple(failed), tuple(map(_other, others)))


def _document(ran: ProgramRun) -> CopiesDocument:
    check_end(ran, "the copies", document=copies_document.WIRE in ran.stdout)
    return copies_document.decode(ran.stdout)


def _other(ran: ProgramRun) -> NvBandwidth | CannotMeasure:
    if ran.cannot:
        return reason(ran)
    if ran.timed_out or ran.stuck:
        step = "run nvbandwidth on the node by hand; look for processes in D state"
        return CannotMeasure(f"nvbandwidth did not end within {ran.duration_s:.0f} s", next_step=step)
    try:
        return nvbandwidth.parse(ran.stdout, ran.stderr)
    except CannotMeasure as why:
        return why


def _metrics_of(document: CopiesDocument) -> Iterable[Metric]:
    for gpu in document.gpus:
        conditions = _conditions(document, gpu)
        for copy in gpu.copies:
            name = _OF_COPY.get((copy.what, copy.when))
            if name is None or isinstance(copy.gb_per_s, Unknown):
                continue
            inside = copy.what == INSIDE
            if copy.what in BY_KERNELS:
                yield _by_kernel(name, copy, gpu, conditions)
                continue
            more = {"counted": "both"} if inside else {"host_memory": "elsewhere" if gpu.unbound else "beside the GPU"}
            if not inside and gpu.confidential is True:
                more["path"] = BOUNCE
            if copy.when == AT_ONCE:
                more["gpus"] = str(len(document.gpus))
            rate = copy.gb_per_s * (_BOTH if inside else 1)
            yield Metric(name, (rate,), "GB/s", gpu.device, conditions=conditions | more)
        lowest = min(_rates_of(document, gpu.index), default=None)
        if lowest is not None:
            yield Metric(PEER, (lowest,), "GB/s", gpu.device, conditions=conditions | {"pairs": document.asked})


def _by_kernel(name: str, copy: Copy, gpu: GpuCopies, conditions: dict[str, str]) -> Metric:
    """A rate that a kernel of ours reached: all bytes that it reads and writes, from operands of this size."""
    own = conditions | {"path": "kernel", "size_bytes": str(copy.bytes)}
    return Metric(name, (value_or(copy.gb_per_s, 0.0),), "GB/s", gpu.device, conditions=own)


def _conditions(document: CopiesDocument, gpu: GpuCopies) -> dict[str, str]:
    return {
        "tool": TOOL,
        "gpu": str(gpu.name),
        "path": "ce",
        "size_bytes": str(document.bytes),
        "driver": str(document.driver),
    }


def _rates_of(document: CopiesDocument, index: int) -> Iterable[float]:
    """The rates of every direct pair that a GPU is part of, as source or as target."""
    for pair in document.pairs:
        rate = pair.gb_per_s
        if index in {pair.source, pair.target} and pair.direct and not pair.error and not isinstance(rate, Unknown):
            yield rate


def _metrics_of_other(found: NvBandwidth, runs: Sequence[CopiesDocument]) -> Iterable[Metric]:
    devices = _devices(found, runs)
    conditions = {"tool": OTHER, "tool_version": str(found.version), "path": "ce", "driver": str(found.driver)}
    bounced = any(gpu.confidential is True for document in runs for gpu in document.gpus)
    of_host = conditions | {"path": BOUNCE} if bounced else conditions
    for case in found.cases:
        name = _OF_CASE.get(case.name)
        if case.status != nvbandwidth.PASSED or case.unit != "GB/s" or not case.matrix:
            continue
        if name and len(case.matrix) == 1:
            for index, rate in enumerate(case.matrix[0]):
                if rate is not None:
                    yield Metric(name, (rate,), "GB/s", devices.get(index, f"GPU {index}"), conditions=of_host)
        elif case.name == PEER_CASE:
            for index, worst in enumerate(_lowest(case.matrix)):
                if worst is not None:
                    device = devices.get(index, f"GPU {index}")
                    yield Metric(PEER, (worst,), "GB/s", device, conditions=conditions | {"pairs": "all"})


def _lowest(matrix: nvbandwidth.Matrix) -> Iterable[float | None]:
    """The lowest rate of each GPU with any partner, as row or as column."""
    for index in range(len(matrix)):
        own = [*matrix[index], *(row[index] for row in matrix if index < len(row))]
        yield min((rate for rate in own if rate is not None), default=None)


def _devices(found: NvBandwidth, runs: Sequence[CopiesDocument]) -> Mapping[int, str]:
    """The name of each GPU number of nvbandwidth, by PCI addresses; none if they are not all known.

    Then the numbers are taken as they are: both count in the order of the PCI bus.
    """
    known = {gpu.address: gpu.device for document in runs for gpu in document.gpus}
    whole = all(each.address in known for each in found.devices)
    return {each.index: known[each.address] for each in found.devices} if whole else {}
