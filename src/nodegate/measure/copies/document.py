"""The document of the copies (docs/reference/copies-document.md) as types: what was copied, how fast, how correctly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from nodegate.errors import CannotMeasure
from nodegate.measure.own_program import MeasuredGpu, checked_document, gpu_filled, rate
from nodegate.probe import readings as read
from nodegate.probe.gpu import virtualization_of
from nodegate.probe.pci import speed_in, width_in
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, known, value_or
from nodegate.wire import Wire

_MOST_WORDS = 64
_FIELDS = 4
SCHEMA = "nodegate.copies/1"
MAX_DOCUMENT_BYTES = 4 << 20
OUT, IN, BOTH, INSIDE = "device_to_host", "host_to_device", "both_ways", "device"
READ, COPY, TRIAD = "read", "copy", "triad"
BY_KERNELS = READ, COPY, TRIAD
ALONE, AT_ONCE = "alone", "at once"
_MAX_COPIES = 64
_MOST_ABOVE, _OF_A_LINK = 16, 5
_OF_LINK = "link_gen", "link_width"
_MAX_GPUS = 64
_FASTEST_GB_PER_S = 1e6
_REFUSED_STEP = "fix this (a job on the GPUs, MIG, no driver), then measure this node again"
_STEP = "run the copies on this node again, or read what it sent in the evidence file"
_NAMED = "the document of the copies"
_WIRE = Wire(SCHEMA, "the program for the copies", MAX_DOCUMENT_BYTES, _STEP)
WIRE = _WIRE.mark


@dataclass(frozen=True)
class WrongWord:
    """A word of four bytes that was not what had been written.

    `address` is in bytes, from the start of what was tested; `when` is the pattern.
    """

    when: str
    address: int
    expected: int
    found: int

    def __str__(self) -> str:
        return f"byte {self.address:#x} held {self.found:#010x} for {self.expected:#010x}"


@dataclass(frozen=True)
class Tested:
    """The test of one GPU's memory: so many bytes of `total`, with so many patterns of those planned.

    `bits` are all bits that were ever wrong in a word; `wrong` the first wrong words.
    """

    bytes: Known[int]
    total: Known[int]
    passes: Known[int]
    planned: Known[int]
    wrong_words: Known[int]
    bits: Known[int]
    wrong: tuple[WrongWord, ...]


@dataclass(frozen=True)
class Copy:
    """One kind of copy on one GPU, in GB/s (1e9 bytes): the median after the warm-up.

    `what` is OUT, IN, BOTH (both at the same time, the bytes of both) or INSIDE (one way, bytes counted once), or a
    kernel of BY_KERNELS (all bytes counted that it reads and writes); `when` ALONE or AT_ONCE, together with all other
    GPUs. `bytes` is the size of each operand.
    """

    what: str
    when: str
    gb_per_s: Known[float]
    bytes: Known[int]


@dataclass(frozen=True)
class Data:
    """The result of comparing a copy's data. `what` is the direction in which words were lost, if any were."""

    what: str
    when: str
    bytes: Known[int]
    wrong_words: Known[int]
    first_word: int | None


@dataclass(frozen=True)
class Link:
    """The PCIe link during copies with the host: (lowest, median, highest) generation and lanes by NVML."""

    gen: Known[tuple[int, int, int]]
    width: Known[tuple[int, int, int]]


@dataclass(frozen=True)
class LinkAbove:
    """The link of a bridge above a GPU, now and at most: GT/s and lanes; None where it has none."""

    address: str
    speed_gts: Known[float | None]
    speed_max_gts: Known[float | None]
    width: Known[int | None]
    width_max: Known[int | None]


@dataclass(frozen=True)
class GpuCopies(MeasuredGpu):
    """One GPU.

    `cpus` are those next to it, on which its process ran; `unbound` says why it did not run there. `memory` is the test
    of its whole memory, if it had one. `above` are the bridges above it, nearest first. `confidential`: confidential
    computing is on; `virtualization` is NVML's mode in words.
    """

    cpus: str
    unbound: str
    copies: tuple[Copy, ...]
    data: tuple[Data, ...]
    links: Mapping[str, Link]
    memory: Tested | None
    above: tuple[LinkAbove, ...]
    confidential: Known[bool]
    virtualization: Known[str]

    def copy(self, what: str, when: str = ALONE) -> Copy | None:
        """One of its copies; None if it did not get that far."""
        return next((each for each in self.copies if (each.what, each.when) == (what, when)), None)


@dataclass(frozen=True)
class Pair:
    """Copies from one GPU (NVML index) to another.

    `begun` is false if an error came before the first pair was copied. `direct` is false if copies go through the
    host's memory.
    """

    source: int
    target: int
    error: str
    begun: bool
    direct: bool
    gb_per_s: Known[float]
    bytes: Known[int]
    wrong_words: Known[int]
    first_word: int | None

    def __str__(self) -> str:
        return f"GPU {self.source} -> GPU {self.target}"


@dataclass(frozen=True)
class CopiesDocument:
    """One measurement of all GPUs of a node. `asked` says which pairs of GPUs were requested: all, ring or none.

    `kernels`: of a release that has kernels for the memory. `patterns`: the whole memory was to be tested;
    `both_ways`: host copies were to go both ways at once.
    """

    driver: Known[str]
    bytes: Known[int]
    gpus: tuple[GpuCopies, ...]
    asked: str
    pairs: tuple[Pair, ...]
    kernels: bool
    patterns: bool
    both_ways: bool


def decode(written: str) -> CopiesDocument:
    """The document in what the program printed, or in plain JSON.

    Raises:
        CannotMeasure: it is damaged, too large, of another format, or says why nothing was started.
    """
    data = checked_document(_WIRE, written, named=_NAMED, undone="copies not run", refused_step=_REFUSED_STEP)
    gpus = read.records(data, "gpus")
    if isinstance(gpus, Unknown) or not gpus:
        raise CannotMeasure(f"{_NAMED} has no GPU in it", next_step=_STEP)
    size = read.integer(data, "bytes")
    peers = read.mapping(data, "peers")
    return read.filled(
        CopiesDocument,
        data,
        gpus=tuple(_gpu(position, each) for position, each in enumerate(gpus[:_MAX_GPUS])),
        asked=value_or(read.text(peers, "pairs"), ""),
        pairs=tuple(filter(None, (_pair(each, size) for each in read.listed(peers, "copies")))),
        kernels="kernel_bytes" in data,
        patterns=bool(value_or(read.number(data, "pattern_s"), 0.0)),
    )


def _gpu(position: int, data: Mapping[str, object]) -> GpuCopies:
    where, link = (value_or(read.mapping(data, name), {}) for name in ("place", "link"))
    return gpu_filled(
        GpuCopies,
        position,
        data,
        cpus=value_or(read.text(where, "cpus"), ""),
        unbound=value_or(read.text(where, "error"), ""),
        copies=tuple(
            read.filled(Copy, each, gb_per_s=_rate(each)) for each in read.listed(data, "copies", _MAX_COPIES)
        ),
        data=tuple(
            read.filled(Data, each, wrong_words=_count(each, "wrong_words"))
            for each in read.listed(data, "data", _MAX_COPIES)
        ),
        links={when: Link(*(_three(link, when, name) for name in _OF_LINK)) for when in (ALONE, AT_ONCE)},
        memory=_tested(value_or(read.mapping(data, "memory"), {})),
        above=tuple(_above(value_or(read.items(where, "above"), ()))),
        confidential=read.flag(link, "confidential"),
        virtualization=read.mapped(read.integer(link, "virtualization"), virtualization_of),
    )


def _rate(data: Mapping[str, object]) -> Known[float]:
    return rate(data, "gb_per_s", _FASTEST_GB_PER_S, "GB/s")


def _count(data: Mapping[str, object], key: str) -> Known[int]:
    found = read.integer(data, key)
    return found if isinstance(found, Unknown) or found >= 0 else read.wrong("a count", found)


def _tested(data: Mapping[str, object]) -> Tested | None:
    if not data:
        return None
    counts = {name: _count(data, name) for name in ("bytes", "passes", "planned", "wrong_words", "bits")}
    wrong = tuple(islice(_wrong(value_or(read.items(data, "wrong"), ())), _MOST_WORDS))
    return Tested(total=_count(data, "total_bytes"), wrong=wrong, **counts)


def _wrong(listed: Sequence[object]) -> Iterator[WrongWord]:
    for each in listed:
        if isinstance(each, (list, tuple)) and len(each) == _FIELDS:
            numbers = [value for value in known(map(read.whole, each[1:])) if value >= 0]
            if len(numbers) == _FIELDS - 1:
                yield WrongWord(value_or(read.label(each[0]), "?"), *numbers)


def _above(listed: Sequence[object]) -> Iterator[LinkAbove]:
    for each in listed[:_MOST_ABOVE]:
        if isinstance(each, (list, tuple)) and len(each) == _OF_A_LINK and all(isinstance(one, str) for one in each):
            address, speed, speed_max, width, width_max = map(str, each)
            speeds, widths = (speed_in(speed), speed_in(speed_max)), (width_in(width), width_in(width_max))
            yield LinkAbove(shown(address, 20), *speeds, *widths)


def _three(link: Mapping[str, object], when: str, name: str) -> Known[tuple[int, int, int]]:
    seen = value_or(read.mapping(link, when), {})
    if name not in seen:
        told = read.why_not(value_or(read.mapping(link, "unread"), {}).get(name))
        return Unknown(Why.FAILED, "NVML returned no sample during the copies") if told is None else told
    found = read.integers(seen, name, 3)
    return found if isinstance(found, Unknown) else (found[0], found[1], found[2])


def _pair(data: Mapping[str, object], size: Known[int]) -> Pair | None:
    source, target = read.integer(data, "from"), read.integer(data, "to")
    if isinstance(source, Unknown) or isinstance(target, Unknown):
        return None
    wrong = _count(data, "wrong_words")
    return read.filled(Pair, data, source=source, target=target, bytes=size, gb_per_s=_rate(data), wrong_words=wrong)
