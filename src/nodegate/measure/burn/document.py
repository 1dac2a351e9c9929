"""The burn document as types: what each GPU computed, and what NVML reported. docs/reference/burn-document.md."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from nodegate.errors import CannotMeasure
from nodegate.measure.own_program import MeasuredGpu, checked_document, gpu_filled, rate
from nodegate.probe import readings as read
from nodegate.probe.gpu import event_reason_names
from nodegate.unknown import Known, Unknown, Why, known, unread, value_or
from nodegate.wire import Wire

SCHEMA = "nodegate.burn/1"
MAX_DOCUMENT_BYTES = 8 << 20
SETTLED_S = 30.0  # clocks and temperatures have settled after this time, or after the first fifth of a shorter burn
QUANTITIES = (
    "sm_clock_mhz",
    "power_w",
    "temperature_c",
    "memory_temperature_c",
    "utilization_percent",
    "link_gen",
    "link_width",
    "ecc_corrected",
    "ecc_uncorrected",
)
OPTIONAL = ("fp8", "fp4", "fp64")  # what not every GPU has: a GPU without bf16 was not burned
KERNELS = ("", "mma.sync", "fma")  # whose results tell of a GPU; "": cuBLAS
VIOLATIONS = ("thermal", "board_limit", "reliability")
_MAX_PHASES = 16
_MAX_TIMES = 1000
_MOST_TFLOPS = 1e6
_LARGEST = float(1 << 64)
_REFUSED_STEP = "fix this (a job on the GPUs, MIG, no driver), then run again"
_STEP = "run the burn on this node again, or read what it sent in the evidence file"
_NAMED = "the burn's document"
_WIRE = Wire(SCHEMA, "the burn", MAX_DOCUMENT_BYTES, _STEP)
WIRE = _WIRE.mark


@dataclass(frozen=True)
class Phase:
    """One type of numbers on one GPU. `tflops` is 1e12 operations a second, after the warm-up.

    `mismatches` counts the 32-bit words of results that differ from the GPU's own first result, `first_mismatch` says
    where the first was. `checksum` is that of the first result. `reference_errors` counts its elements that differ
    from the result of another processor. `ends_s` are the ends of its windows, since the start of the load, `rates`
    what was reached in those after the warm-up, in TFLOPS. `kernel` is the one of nodegate's own that multiplied, ""
    with cuBLAS.
    """

    dtype: str
    matrix: int
    iterations: Known[int]
    seconds: Known[float]
    tflops: Known[float]
    mismatches: Known[int]
    first_mismatch: str
    checksum: str
    reference_errors: Known[int]
    ends_s: tuple[float, ...] = ()
    kernel: str = ""
    rates: tuple[float, ...] = ()

    def looks(self, count: int) -> tuple[float, ...]:
        """Its rate in so many parts of equal length, in TFLOPS; as a whole where there are too few windows."""
        each = len(self.rates) // count
        if isinstance(self.tflops, Unknown) or not each:
            return () if isinstance(self.tflops, Unknown) else (self.tflops,)
        last = self.rates[len(self.rates) - each * count :]
        return tuple(fmean(last[at * each : (at + 1) * each]) for at in range(count))

    @property
    def by_another_kernel(self) -> bool:
        """Whether a kernel multiplied that this nodegate does not have (wgmma, once): no GPU has shown it right."""
        return self.kernel not in KERNELS


@dataclass(frozen=True)
class Window:
    """NVML's samples of about one second: [lowest, median, highest] by quantity, and samples by event reason bit.

    `start_s` is since the start of the load; `load` of the `count` samples were taken while the GPU computed.
    """

    start_s: float
    count: int
    load: int
    values: Mapping[str, tuple[float, float, float]]
    reasons: Mapping[int, int]


def median_of(windows: Sequence[Window], quantity: str) -> float | None:
    """The median of a quantity in these windows, by their samples under load; None where none has it."""
    found = sorted((each.values[quantity][1], each.load) for each in windows if quantity in each.values)
    half = sum(count for _, count in found) / 2
    for value, count in found:
        half -= count
        if half <= 0:
            return value
    return None


@dataclass(frozen=True)
class GpuLoad(MeasuredGpu):
    """One GPU in one burn. `started_s` is None if it never started.

    `left_out` are the types of numbers in which it was not burned because it has no units for them, and why.
    """

    multiprocessors: int
    path: str
    started_s: float | None
    phases: tuple[Phase, ...]
    windows: tuple[Window, ...]
    unread: Mapping[str, Unknown]
    sampling_error: str
    violations_s: Mapping[str, Known[float]]
    left_out: Mapping[str, str]

    @property
    def model(self) -> tuple[str, int]:
        """What GPUs of the same kind share: the name, and the number of multiprocessors."""
        return str(self.name), self.multiprocessors

    @property
    def under_load(self) -> tuple[Window, ...]:
        """The windows in which it computed."""
        return tuple(each for each in self.windows if each.start_s >= 0 and each.load > 0)

    @property
    def settled(self) -> tuple[Window, ...]:
        """The windows in which it computed for most of the time, once clocks and temperatures have settled."""
        windows = self.under_load
        first_s = min(SETTLED_S, max((each.start_s for each in windows), default=0.0) / 5)
        return tuple(each for each in windows if each.start_s >= first_s and 2 * each.load >= each.count)

    @property
    def worked_s(self) -> Known[float]:
        """How long it computed, in seconds, over all types of numbers."""
        return _sum([phase.seconds for phase in self.phases])

    @property
    def busy_share(self) -> float:
        """In how many of the samples since the start of the load it computed, 0 to 1."""
        since = [each for each in self.windows if each.start_s >= 0]
        return sum(each.load for each in since) / max(1, sum(each.count for each in since))

    @property
    def watched_s(self) -> float:
        """From the first window to the last, in seconds."""
        return self.windows[-1].start_s - self.windows[0].start_s if self.windows else 0.0

    def middle(self, quantity: str) -> Known[float]:
        """The median of a quantity under settled load."""
        found = median_of(self.settled, quantity)
        return self._absent(quantity) if found is None else found

    def highest(self, quantity: str) -> Known[float]:
        """The highest sample of a quantity under load."""
        found = [each.values[quantity][2] for each in self.under_load if quantity in each.values]
        return max(found) if found else self._absent(quantity)

    def growth(self, counter: str) -> Known[float]:
        """By how much a counter grew from the first sample to the last; unknown if it decreased."""
        found = [each.values[counter] for each in self.windows if counter in each.values]
        if not found:
            return self._absent(counter)
        if any(later[0] < earlier[2] for earlier, later in itertools.pairwise(found)):
            return Unknown(Why.FAILED, "the counter decreased during the burn: it was reset")
        return found[-1][2] - found[0][0]

    @property
    def reasons(self) -> Mapping[str, float]:
        """What limited the clock under load, each with its share of the samples (0 to 1)."""
        windows = self.under_load
        count = sum(each.count for each in windows)
        seen: dict[str, int] = {}
        for window in windows:
            for bit, samples in window.reasons.items():
                for name in event_reason_names(bit):
                    seen[name] = seen.get(name, 0) + min(samples, window.count)
        return {name: samples / count for name, samples in sorted(seen.items()) if samples}

    def _absent(self, quantity: str) -> Unknown:
        if quantity in self.unread:
            return self.unread[quantity]
        return Unknown(Why.FAILED, self.sampling_error or f"no sample of {quantity} under load")


@dataclass(frozen=True)
class BurnDocument:
    """One burn of all GPUs of a node. `path` is cublas (with the library's version) or ptx (nodegate's kernels).

    `asked_s` is how long each GPU had to work, in seconds. `again` is what nodegate's own kernels gave after cuBLAS had
    given GPUs that are alike different results.
    """

    path: str
    library: str
    library_version: Known[int]
    driver: Known[str]
    dtypes: tuple[str, ...]
    gpus: tuple[GpuLoad, ...]
    asked_s: Known[float]
    again: tuple[GpuLoad, ...] = ()


def decode(written: str) -> BurnDocument:
    """The document in what the program printed, or in plain JSON.

    Raises:
        CannotMeasure: it is damaged, too large, of another format, or says why nothing was started.
    """
    data = checked_document(_WIRE, written, named=_NAMED, undone="burn not run", refused_step=_REFUSED_STEP)
    gpus, phases = read.records(data, "gpus"), read.records(data, "phases")
    if isinstance(gpus, Unknown) or isinstance(phases, Unknown) or not gpus or not phases:
        raise CannotMeasure(f"{_NAMED} has no GPU or no phase in it", next_step=_STEP)
    return read.filled(
        BurnDocument,
        data,
        dtypes=tuple(value_or(read.text(each, "dtype"), "?") for each in phases[:_MAX_PHASES]),
        gpus=tuple(_gpu(position, each) for position, each in enumerate(gpus)),
        asked_s=_sum([read.number(each, "seconds") for each in phases[:_MAX_PHASES]]),
        again=tuple(_gpu(position, each) for position, each in enumerate(read.listed(data, "again"))),
    )


def _sum(times: Sequence[Known[float]]) -> Known[float]:
    unknown = unread(*times)
    return sum(known(times)) if unknown is None else unknown


def _gpu(position: int, data: Mapping[str, object]) -> GpuLoad:
    samples = value_or(read.mapping(data, "samples"), {})
    violations = value_or(read.mapping(samples, "violations_ns"), {})
    unread = value_or(read.mapping(samples, "unread"), {})
    left_out = value_or(read.mapping(data, "left_out"), {})
    return gpu_filled(
        GpuLoad,
        position,
        data,
        started_s=value_or(read.number(data, "started_s"), None),
        phases=tuple(_phase(each) for each in read.listed(data, "phases", _MAX_PHASES)),
        windows=tuple(_window(each) for each in read.listed(samples, "windows")),
        unread={name: why for name in unread if (why := read.why_not(unread[name])) is not None},
        sampling_error=value_or(read.text(samples, "error"), ""),
        left_out={name: value_or(read.text(left_out, name), "") for name in OPTIONAL if name in left_out},
        violations_s={name: read.scaled(read.number(violations, name), 1e-9) for name in VIOLATIONS},
    )


def _phase(data: Mapping[str, object]) -> Phase:
    none = Unknown(Why.MISSING, "no rate was measured")
    return read.filled(
        Phase,
        data,
        dtype=value_or(read.text(data, "dtype"), "?"),
        tflops=none if data.get("tflops") is None else rate(data, "tflops", _MOST_TFLOPS, "TFLOPS"),
        first_mismatch=_place(value_or(read.mapping(data, "first_mismatch"), {})),
        ends_s=_times(data.get("windows_s")),
        rates=_rates(data),
    )


def _rates(data: Mapping[str, object]) -> tuple[float, ...]:
    """The rates of the windows after the warm-up; nothing where one of them is none."""
    warm, found = value_or(read.integer(data, "warm_up_windows"), 0), data.get("tflops_windows")
    rates = _numbers(found[warm:_MAX_TIMES]) if isinstance(found, list) and 0 <= warm <= len(found) else ()
    return rates if all(0 < each < _MOST_TFLOPS for each in rates) else ()


def _place(first: Mapping[str, object]) -> str:
    if not first:
        return ""
    product, at_s = read.integer(first, "iteration"), read.number(first, "at_s")
    row, column = read.integer(first, "row"), read.integer(first, "column")
    after = "" if isinstance(at_s, Unknown) else f" after {at_s:.0f} s"
    return f"first in product {product}{after} at row {row}, column {column}"


def _window(data: Mapping[str, object]) -> Window:
    count = max(value_or(read.integer(data, "count"), 0), 0)
    return Window(
        start_s=value_or(read.number(data, "start_s"), -1.0),
        count=count,
        load=min(max(value_or(read.integer(data, "load"), 0), 0), count),
        values={quantity: three for quantity in QUANTITIES if (three := _three(data.get(quantity))) is not None},
        reasons=_reasons(value_or(read.mapping(data, "reason_samples"), {})),
    )


def _three(value: object) -> tuple[float, float, float] | None:
    """Lowest, median and highest; a burn has thousands of them."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    lowest, middle, highest = value
    try:
        return (lowest, middle, highest) if -_LARGEST < lowest <= middle <= highest < _LARGEST else None
    except TypeError:
        return None


def _times(value: object) -> tuple[float, ...]:
    """Times that follow one another; nothing where they are anything else."""
    times = _numbers(value[:_MAX_TIMES]) if isinstance(value, list) else ()
    return times if all(0 <= one <= next_one < _LARGEST for one, next_one in itertools.pairwise(times)) else ()


def _numbers(listed: Sequence[object]) -> tuple[float, ...]:
    """All of them as numbers; nothing where one is none."""
    found = [float(each) for each in listed if type(each) in (int, float) and isinstance(each, (int, float))]
    return tuple(found) if len(found) == len(listed) else ()


def _reasons(data: Mapping[str, object]) -> Mapping[int, int]:
    found = ((value_or(read.integer_in(bit), 0), value_or(read.integer(data, bit), 0)) for bit in data)
    return {bit: samples for bit, samples in found if bit > 0 < samples}
