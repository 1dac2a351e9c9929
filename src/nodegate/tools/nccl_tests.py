"""nccl-tests: the text of its *_perf programs, in every layout from 2.0 to 2.19, through any launcher.

Source of the layouts: NVIDIA/nccl-tests v2.0 to v2.19.6 (src/common.cu, src/util.cu). Bandwidths are GB/s (1e9 bytes),
times µs, sizes bytes. "Avg bus bandwidth" is not a bandwidth of the machine: it averages every size of the sweep.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nodegate.errors import CannotMeasure
from nodegate.knowledge.required import required, shortest
from nodegate.text import shown
from nodegate.tools.nccl_rows import MAX_LINE, MAX_TEXT, Row, clean, read_rows
from nodegate.unknown import Known, Unknown, Why

MAX_DEVICES = 16384
_OUT_OF_MEMORY = "out of memory"  # cudaGetErrorString of cudaErrorMemoryAllocation
_BY_HAND = "run the nccl-tests program on the node by hand"
_DEVICE = re.compile(
    r"Rank +(\d{1,6}) +(?:Group +(\d{1,6}) +)?Pid +(\d{1,9}) on +(\S{1,255}) device +(\d{1,4})"
    r" \[([0-9a-fA-Fx:]{2,16})\] (.{1,120})"
)
_PARAMETERS = re.compile(r"nThread (\d{1,6}) nGpus (\d{1,6}) minBytes")
_STARTING = re.compile(r"Collective test starting: (?:\S{0,200}/)?([a-z_]{1,40}?)_perf")
# Since 2.20 with the commit: "2.20.0 (b4d5bee)".
_VERSION = re.compile(
    r"nccl-tests version (\S{1,40})(?: \([0-9a-f]{4,40}\))? nccl-headers=\d{1,9} nccl-library=(\d{1,9})"
)
_NCCL = re.compile(
    r"NCCL version (?:: )?(\d{1,3}\.\d{1,3}\.\d{1,3})\S{0,40}?(?:\+cuda([\d.]{1,12}))?(?=\s|$)", re.MULTILINE
)
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values *: *(\d{1,18}) +(OK|FAILED)")
_AVERAGE = re.compile(r"Avg bus bandwidth *: *(\d{1,9}(?:\.\d{1,9})?(?:e[+-]\d{1,3})?)")
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18}) due to memory limitation")
_FAULTS: tuple[tuple[Literal["cuda", "nccl", "gpus", "timeout"], re.Pattern[str]], ...] = (
    ("cuda", re.compile(r"(?<!\S)(?P<host>\S{0,255}): Test CUDA failure \S{1,200} '(?P<text>[^'\n]{0,400})")),
    ("nccl", re.compile(r"(?<!\S)(?P<host>\S{0,255}): Test NCCL failure \S{1,200} '(?P<text>[^'\n]{0,400})")),
    (
        "gpus",
        re.compile(
            r"(?P<text>Invalid number of GPUs: (?P<asked>\d{1,6}) requested but only (?P<found>\d{1,6}) were found)"
        ),
    ),
    ("timeout", re.compile(r"(?<!\S)(?P<host>\S{0,255}): (?P<text>Test timeout \(\d{1,9}s\))")),
)
_SIGNS = shortest(word for _, pattern in _FAULTS for word in required(pattern))  # each fault has one of them
_FOLLOWER = re.compile(r"\.\. (\S{1,255}) pid (\d{1,9}): Test failure ")
_RANK_LABEL = re.compile(r"^(?:\[\d{1,6},(\d{1,6})\]<std(?:out|err)>|(\d{1,6})): ?")
# Errors that stop a program before it measures anything: never the node's hardware.
_DID_NOT_RUN = re.compile(
    r"There are not enough slots available|error while loading shared libraries: .{1,200}|invalid option '.'"
    r"|invalid size specified for .{1,60}|cannot execute binary file|No such file or directory"
    r"|CUDA driver version is insufficient for CUDA runtime version|no kernel image is available",
)


@dataclass(frozen=True)
class Device:
    """One rank as the header lists it. `group` is 0 before version 2.14; `bus` is unchanged."""

    rank: int
    group: int
    pid: int
    host: str
    device: int
    bus: str
    model: str


@dataclass(frozen=True)
class Fault:
    """Why a run ended early. `rank` is the rank that reported it, if a label or its process shows it."""

    kind: Literal["cuda", "nccl", "gpus", "timeout"]
    text: str
    host: str
    rank: Known[int]

    @property
    def is_out_of_memory(self) -> bool:
        """Whether CUDA had no memory left for it."""
        return _OUT_OF_MEMORY in self.text


@dataclass(frozen=True)
class NcclTest:
    """The result of one run.

    `collective` is "" if the version does not name it. `rows` are in the order of the table, without sizes of 0.
    `out_of_bounds` counts the wrong elements. `reduced_to_bytes` is the size to which the program reduced the
    largest message for lack of memory: larger ones were not run. `faults` are in the order of the text: the first
    names the guilty rank, the others follow it. `inconsistent` are sentences about contradictory numbers of a row.
    """

    collective: str
    version: Known[str]
    nccl: Known[str]
    cuda: Known[str]
    devices: tuple[Device, ...]
    ranks: Known[int]
    reduced_to_bytes: int | None
    rows: tuple[Row, ...]
    out_of_bounds: Known[int]
    out_of_bounds_ok: Known[bool]
    average_gb_per_s: Known[float]
    faults: tuple[Fault, ...]
    inconsistent: tuple[str, ...]

    def row(self, size_bytes: int) -> Row | None:
        """The row of a size, the last one if it was run several times.

        Collectives that distribute a message round its size down to a multiple of the ranks.
        """
        ranks = len(self.devices) if isinstance(self.ranks, Unknown) else self.ranks
        least = size_bytes - min(64 * ranks, size_bytes // 100)
        return next((row for row in reversed(self.rows) if least <= row.size_bytes <= size_bytes), None)

    @property
    def checked(self) -> bool:
        """Whether the results of every size were compared, at least those out of place."""
        return bool(self.rows) and all(row.out_of_place.checked for row in self.rows)

    @property
    def wrong(self) -> int:
        """How many elements are known to be wrong, by the larger of two counts."""
        counted = sum(value for row in self.rows for value in row.wrong_counts)
        return max(counted, 0 if isinstance(self.out_of_bounds, Unknown) else self.out_of_bounds)

    @property
    def corrupt(self) -> bool:
        """Whether the run itself reports wrong data."""
        return self.wrong > 0 or self.out_of_bounds_ok is False

    def gaps(self, *, ranks: int, size_bytes: int) -> tuple[str, ...]:
        """What is missing for a complete run of `ranks` GPUs at a size; empty: the evidence is complete."""
        found = [fault.text for fault in self.faults[:1]]
        if isinstance(self.ranks, Unknown):
            found.append(f"how many GPUs took part is unknown ({self.ranks})")
        elif self.ranks != ranks:
            found.append(f"{self.ranks} of {ranks} GPUs took part")
        if self.reduced_to_bytes is not None and self.reduced_to_bytes < size_bytes:
            found.append(f"the largest size was reduced to {self.reduced_to_bytes} bytes for lack of memory")
        if self.row(size_bytes) is None:
            found.append(f"no row of {size_bytes} bytes")
        return (*found, *self.open_ends)

    @property
    def open_ends(self) -> tuple[str, ...]:
        """Which of the closing lines are missing."""
        lines = {"Out of bounds values": self.out_of_bounds, "Avg bus bandwidth": self.average_gb_per_s}
        return tuple(f"no line '{name}'" for name, value in lines.items() if isinstance(value, Unknown))


def parse(written: str, stderr: str = "", *, collective: str = "") -> NcclTest:
    """The output of one run.

    A text with an error of the program but no table is a result too: its `faults` say what happened. The loss of a GPU
    is reported in `stderr`. `collective` is what was run ("all_reduce"), for the versions that do not name it. Of
    several runs of the same GPUs one after another: the first that reports wrong data or an error, else the last.

    Raises:
        CannotMeasure: it is not such an output, its rows have no numbers, or several programs ran side by side.
    """
    both = f"{written[:MAX_TEXT]}\n{stderr[:MAX_TEXT]}"
    text, noise = clean(both)
    devices = tuple(_devices(text))
    if runs := _one_after_another(written, devices):
        each = [parse(run, stderr, collective=collective) for run in runs]
        return next((run for run in each if run.corrupt or run.faults), each[-1])
    faults = tuple(_faults(both, devices))
    rows, unreadable, torn = read_rows(text)
    stopped = _DID_NOT_RUN.search(both)
    if stopped and not rows:
        raise CannotMeasure(f"nccl-tests did not run: {shown(stopped[0], 160)}", next_step=_BY_HAND)
    if unreadable and not rows:
        raise CannotMeasure(f"a row of nccl-tests cannot be read: {shown(unreadable, 120)}", next_step=_BY_HAND)
    if not rows and not faults:
        line = torn or next((line.strip() for line in reversed(text.splitlines()) if line.strip(" #\t")), "")
        what = f"the output {'has no result' if devices else 'is not from nccl-tests'}"
        said = f"{what}; it ends with: {shown(line, 120)}" if line else "the output of nccl-tests is empty"
        raise CannotMeasure(said, next_step=_BY_HAND)
    if len({device.rank for device in devices}) < len(devices):
        reason = f"{len(devices)} separate programs ran instead of one"
        raise CannotMeasure(reason, next_step="use nccl-tests built with MPI=1, or one process with -g")
    named = _STARTING.search(text)
    return _of(text, noise, named[1] if named else collective, devices, faults, rows)


def _of(  # noqa: PLR0917 - the parts of one text, from one caller
    text: str,
    noise: str,
    collective: str,
    devices: tuple[Device, ...],
    faults: tuple[Fault, ...],
    rows: tuple[Row, ...],
) -> NcclTest:
    version, nccl = _VERSION.search(text), _NCCL.search(text) or _NCCL.search(noise)
    parameters, average = _PARAMETERS.search(text), _AVERAGE.search(text)
    bounds, reduced = _OUT_OF_BOUNDS.search(text), _REDUCED.search(text)
    ranks = _ranks(devices, parameters)
    no_footer = Unknown(Why.MISSING, "the closing lines are missing")
    return NcclTest(
        collective=collective,
        version=version[1] if version else Unknown(Why.MISSING, "not written before 2.17.5"),
        nccl=nccl[1] if nccl else _library(version),
        cuda=nccl[2] if nccl and nccl[2] else Unknown(Why.MISSING, "not written"),
        devices=devices,
        ranks=ranks,
        reduced_to_bytes=int(reduced[1]) if reduced else None,
        rows=rows,
        out_of_bounds=int(bounds[1]) if bounds else no_footer,
        out_of_bounds_ok=bounds[2] == "OK" if bounds else no_footer,
        average_gb_per_s=float(average[1]) if average else no_footer,
        faults=faults,
        inconsistent=tuple(
            said for row in rows for said in row.contradictions(collective, _group_size(devices, ranks))
        ),
    )


def _one_after_another(written: str, devices: tuple[Device, ...]) -> list[str]:
    """The texts of the runs, if there are several and each lists the same GPUs once; else none."""
    ends = [match.end() for match in _AVERAGE.finditer(written[:MAX_TEXT])][:-1]
    if not ends or len({device.rank for device in devices}) == len(devices):
        return []
    runs = [written[start:end] for start, end in zip((0, *ends), (*ends, MAX_TEXT), strict=True)]
    listed = [sorted((each.rank, each.host, each.bus) for each in _devices(clean(run)[0])) for run in runs]
    once = len({rank for rank, _, _ in listed[0]}) == len(listed[0])
    return runs if once and all(each == listed[0] for each in listed) else []


def _devices(text: str) -> Iterator[Device]:
    for count, match in enumerate(_DEVICE.finditer(text)):
        if count >= MAX_DEVICES:
            return
        rank, group, pid, host, device, bus, model = match.groups()
        yield Device(int(rank), int(group or 0), int(pid), host, int(device), bus, shown(model.strip(), 80))


def _ranks(devices: tuple[Device, ...], parameters: re.Match[str] | None) -> Known[int]:
    """How many ranks took part.

    One process with many GPUs truncates its list ("..." after 2 kB): then by its -t and -g.
    """
    of_process = int(parameters[1]) * int(parameters[2]) if parameters else 0
    if len({device.pid for device in devices}) == 1 and of_process > len(devices) >= 10:
        return of_process
    if devices and max(device.rank for device in devices) >= len(devices):
        return Unknown(Why.MISSING, "not every rank is listed")
    return len(devices) or Unknown(Why.MISSING, "no line of a rank")


def _group_size(devices: tuple[Device, ...], ranks: Known[int]) -> Known[int]:
    """The ranks of one communicator: NCCL_TESTS_SPLIT makes several."""
    sizes = {sum(other.group == group for other in devices) for group in {device.group for device in devices}}
    if sizes == {len(devices)} or isinstance(ranks, Unknown):
        return ranks
    return sizes.pop() if len(sizes) == 1 else Unknown(Why.FAILED, "groups of several sizes")


def _library(version: re.Match[str] | None) -> Known[str]:
    """NCCL's version code as text: 23007 is 2.30.7, before 2.9 2804 is 2.8.4."""
    if version is None:
        return Unknown(Why.MISSING, "no line with NCCL's version")
    code = int(version[2])
    thousand = 10000 if code >= 10000 else 1000
    return f"{code // thousand}.{code % thousand // 100}.{code % 100}"


def _faults(text: str, devices: tuple[Device, ...]) -> Iterator[Fault]:
    """In the order of the text. A follower line of the same host names the process that failed."""
    plain = text.replace("\r", "")
    if not any(sign in plain for sign in _SIGNS):
        return  # of a good run the lines need not be looked at
    lines = [line[:MAX_LINE] for line in plain.splitlines()]
    for number, line in enumerate(lines):
        for kind, pattern in _FAULTS:
            if match := pattern.search(line):
                host = match.groupdict().get("host") or ""
                host = _RANK_LABEL.sub("", host)
                yield Fault(
                    kind, shown(match["text"], 200), shown(host), _rank(line, host, lines[number + 1 :], devices)
                )


def _rank(line: str, host: str, after: list[str], devices: tuple[Device, ...]) -> Known[int]:
    label = _RANK_LABEL.match(line)
    if label:
        return int(label[1] or label[2])
    follower = next((match for match in map(_FOLLOWER.search, after[:64]) if match and host.endswith(match[1])), None)
    ranks = [
        device.rank for device in devices if follower and device.pid == int(follower[2]) and device.host == follower[1]
    ]
    return ranks[0] if len(ranks) == 1 else Unknown(Why.MISSING, "no line names the rank")
