"""The copies of a node: the first measurement and those of a suspect, and nvbandwidth's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nodegate.errors import CannotMeasure
from nodegate.measure.copies import document as doc
from nodegate.measure.copies.document import CopiesDocument, GpuCopies, Pair
from nodegate.measure.own_program import by_another, by_index, read_attempts
from nodegate.measure.program_run import check_end
from nodegate.metric import BOUNCE, Metric, joined
from nodegate.records.program_run import Attempt, ProgramRun
from nodegate.tools import nvbandwidth
from nodegate.tools.nvbandwidth import NvBandwidth
from nodegate.unknown import Unknown, known

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
    (doc.IN, doc.ALONE): TO_DEVICE,
    (doc.OUT, doc.ALONE): TO_HOST,
    (doc.IN, doc.AT_ONCE): TO_DEVICE_AT_ONCE,
    (doc.OUT, doc.AT_ONCE): TO_HOST_AT_ONCE,
    (doc.BOTH, doc.ALONE): BOTH_WAYS,
    (doc.INSIDE, doc.ALONE): DEVICE,
    (doc.READ, doc.ALONE): BY_READ,
    (doc.COPY, doc.ALONE): BY_COPY,
    (doc.TRIAD, doc.ALONE): BY_TRIAD,
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
        several = self.pairs.get(pair, ())
        return max(known(each.gb_per_s for each in several if each.direct and not each.error), default=None)


def parse(attempts: Sequence[Attempt]) -> Copies:
    """The result of the attempts on one node. Raises CannotMeasure: none of them has a document; the last reason."""
    nothing = CannotMeasure("copies not run", next_step="measure this node again")
    runs, failed, others = read_attempts(attempts, _document, beside=OTHER, nothing=nothing)
    return Copies(tuple(runs), tuple(failed), tuple(by_another(ran, nvbandwidth.parse, _unended) for ran in others))


def _document(ran: ProgramRun) -> CopiesDocument:
    check_end(ran, "the copies", document=doc.WIRE in ran.stdout)
    return doc.decode(ran.stdout)


def _unended(ran: ProgramRun) -> CannotMeasure | None:
    step = "run nvbandwidth on the node by hand; look for processes in D state"
    said = f"nvbandwidth did not end within {ran.duration_s:.0f} s"
    return CannotMeasure(said, next_step=step) if ran.timed_out or ran.stuck else None


def _metrics_of(document: CopiesDocument) -> Iterable[Metric]:
    for gpu in document.gpus:
        conditions = {"tool": TOOL, "gpu": str(gpu.name), "path": "ce"}
        conditions |= {"size_bytes": str(document.bytes), "driver": str(document.driver)}
        for copy in gpu.copies:
            name = _OF_COPY.get((copy.what, copy.when))
            if name is None or isinstance(copy.gb_per_s, Unknown):
                continue
            inside = copy.what == doc.INSIDE
            if copy.what in doc.BY_KERNELS:  # all bytes that it reads and writes, from operands of this size
                own = conditions | {"path": "kernel", "size_bytes": str(copy.bytes)}
                yield Metric(name, (copy.gb_per_s,), "GB/s", gpu.device, conditions=own)
                continue
            more = {"counted": "both"} if inside else {"host_memory": "elsewhere" if gpu.unbound else "beside the GPU"}
            if not inside and gpu.confidential is True:
                more["path"] = BOUNCE
            if copy.when == doc.AT_ONCE:
                more["gpus"] = str(len(document.gpus))
            rate = copy.gb_per_s * (_BOTH if inside else 1)
            yield Metric(name, (rate,), "GB/s", gpu.device, conditions=conditions | more)
        pairs = [each for each in document.pairs if gpu.index in {each.source, each.target}]
        lowest = min(known(each.gb_per_s for each in pairs if each.direct and not each.error), default=None)
        if lowest is not None:
            yield Metric(PEER, (lowest,), "GB/s", gpu.device, conditions=conditions | {"pairs": document.asked})


def _metrics_of_other(found: NvBandwidth, runs: Sequence[CopiesDocument]) -> Iterable[Metric]:
    known_names = {gpu.address: gpu.device for document in runs for gpu in document.gpus}
    whole = all(each.address in known_names for each in found.devices)  # else both count in the order of the PCI bus
    devices = {each.index: known_names[each.address] for each in found.devices} if whole else {}
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
            for index, row in enumerate(case.matrix):  # with any partner, as row or as column
                both = [*row, *(other[index] for other in case.matrix if index < len(other))]
                worst = min((rate for rate in both if rate is not None), default=None)
                if worst is not None:
                    device = devices.get(index, f"GPU {index}")
                    yield Metric(PEER, (worst,), "GB/s", device, conditions=conditions | {"pairs": "all"})
