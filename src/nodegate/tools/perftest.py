"""perftest: ib_write_bw, ib_read_bw, ib_write_lat, ib_read_lat. The text rows, which are the same in all versions.

Units are only in the head of the table: "MB/sec" (4.5) and "MiB/sec" are both 2^20 bytes, "Gb/sec" is 1e9
bits. Some builds print Gb/sec below a head that says MB/sec: the message rate of the row decides. The
exit code is 0 or 1 without more detail. Their --out_json (not JSON before 2024) has no units: a cross-check.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nodegate.errors import CannotMeasure
from nodegate.knowledge.required import required, shortest
from nodegate.text import shown

MAX_TEXT = 1 << 20
_GBPS = {"MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9, "Gb/sec": 1.0}  # of one of them
_RATE, _LAST_DIGIT = "MsgRate[Mpps]", 1e-6
_ROUNDING = 0.01
_ANSI = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_COLUMN = re.compile(
    r"#bytes|#sl|#iterations|BW peak\[[\w/]{1,12}\]|BW average\[[\w/]{1,12}\]|MsgRate\[\w{1,8}\]"
    r"|(?:BW|MsgRate) Port[12]\[[\w/]{1,12}\]|CPU_Util\[%{1,2}\]"
    r"|t_[a-z]{1,12}\[usec\]|99(?:\.9)?% percentile\[usec\]|tps average"
)
_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,3})?")
_ROW = re.compile(r"[0-9]{1,20}(?:\s+(?:-?[0-9.]{1,40}|-?nan|-?inf)){2,12}")
_DEVIATION = "t_stdev[usec]"  # not read: perftest sometimes rounds its square below 0, and prints -nan
_FIELD = re.compile(  # the look ahead spares the eight names at most places
    r"(?=[DNTCLMG])\b"
    r"(Device|Number of qps|Transport type|Connection type|Link type|Mtu|GID index|TX depth)\s*: (\S{1,40})"
)
_TITLE = re.compile(r"\w{2,20} (?:BW|Latency|Bidirectional BW|BW Post List) Test(?: .*)?")
_STATUS = re.compile(r"Failed status ([0-9]{1,3})")
_COMPLETIONS = {4: "local protection error", 5: "flushed", 9: "remote invalid request", 10: "remote access error"}
_COMPLETIONS |= {11: "remote operation error", 12: "transport retry counter exceeded"}
_COMPLETIONS |= {13: "receiver not ready, retries exceeded"}


@dataclass(frozen=True)
class Bandwidth:
    """One row of ib_write_bw or ib_read_bw."""

    size_bytes: int
    iterations: int
    average_gbps: float


@dataclass(frozen=True)
class Latency:
    """One row of ib_write_lat or ib_read_lat in µs. `typical_us` is the median; None if a version does not print it."""

    size_bytes: int
    iterations: int
    typical_us: float | None
    average_us: float | None


@dataclass(frozen=True)
class Report:
    """The output of one program. `stalled`: it has a row of 0 iterations, as after the loss of its peer during the run.

    `settings` are lines above the table ("Device", "Mtu", "Link type", "GID index", "Number of qps"). There is one row
    for each size: the worse one if client and server wrote into one file.
    """

    test: str
    settings: dict[str, str]
    bandwidth: tuple[Bandwidth, ...]
    latency: tuple[Latency, ...]
    stalled: bool = False


@dataclass(frozen=True)
class Trouble:
    """Why a program gave no result, from its messages.

    `link`: both ends ran, and the connection between them failed. `setup`: the program could not run, which says
    nothing about the fabric. `number`: it ran and printed a row without a number, which says nothing either and may
    not happen again.
    """

    kind: Literal["link", "setup", "number"]
    said: str
    next_step: str


_PEERS = "check both ends: cable, port counters, GID and MTU, PFC on the switch"
_REFUSED = {1, 2, 4, 9, 10, 11}  # an end did not accept the request or its memory: the packets arrived
_MEMORY = "run the same perftest with the same options on both ends; with GPU memory look at nvidia_peermem"
_GIDS = "check the GID tables of both ends (show_gids): RoCE v2 with an IPv4 address at the index that was used"
_DEVICE = "run ibv_devinfo on the node"
Kind = Literal["link", "setup"]
_SIGNS: tuple[tuple[str, Kind, str], ...] = (
    (r"Completion with error at (?:client|server)|Failed status [0-9]", "link", _PEERS),
    (r"Failed to modify QP|Unable to Connect the HCA's through the link", "link", _GIDS),
    (r"Found Incompatibility issue with GID types", "link", _GIDS),
    (r"Couldn't listen to port", "setup", "end the process that listens on this port of the node, then run again"),
    (
        r"Couldn't connect to|Couldn't resolve|[Nn]ame or service not known",
        "setup",
        "let TCP through between the nodes, or give nodegate_fabric_address in the inventory",
    ),
    (r"IB device \S{1,60} not found|Unable to find the Infiniband/RoCE device", "setup", _DEVICE),
    (r"Did not detect devices|Failed to get IB devices list|Unable to query port", "setup", _DEVICE),
    (
        r"cuMemGetHandleForAddressRange|DMA_BUF_MAPPING_TYPE_PCIE|Data Direct is not supported",
        "setup",
        "load nvidia_peermem; dma-buf needs NVIDIA's open kernel modules, and data direct a driver of CUDA 12.8",
    ),
    (
        r"SRD (?:not detected|connection only)|SRD does not support",
        "setup",
        "EFA needs perftest built with rdma-core's EFA provider",
    ),
    (
        r"Couldn't allocate MR|ibv_reg_mr|[Ff]ailed to create MR|Couldn't create MR|Cannot allocate memory",
        "setup",
        "raise the locked memory limit (ulimit -l unlimited); for GPU memory load nvidia_peermem",
    ),
    (r"unrecognized option|invalid option|Unsupported memory type", "setup", "install a newer perftest"),
    (r"initialization failure|cuInit|CUDA (?:driver|error)", "setup", "check that CUDA works on the node"),
    (r": not found$", "setup", "install perftest on the node"),
    (r"Couldn't |Unable to |Failed to |[Ee]rror\b", "setup", "run it on the node by hand"),
)
_TROUBLES = tuple((re.compile(pattern), kind, next_step) for pattern, kind, next_step in _SIGNS)
_WORDS = shortest(word for pattern, _, _ in _SIGNS for word in required(pattern))  # each trouble has one of them


def parse(written: str) -> Report:
    """The text of one program.

    Raises:
        CannotMeasure: it has no table, no row in it, or a row or a unit that cannot be read.
    """
    columns: list[str] = []
    rows: list[dict[str, float]] = []
    settings: dict[str, str] = {}
    test = last = ""
    for line in lines(written):
        last = line
        if "#bytes" in line:
            columns = _COLUMN.findall(line)
            if columns[:2] != ["#bytes", "#iterations"]:  # whole numbers in every table
                raise _bad(line)
        elif columns and _ROW.fullmatch(line):
            rows.append(_row(columns, line))
        elif not columns and _TITLE.fullmatch(line):
            test = line.removesuffix(" Test")
        elif not columns:
            for name, value in _FIELD.findall(line):
                settings.setdefault(name, value)
    if not rows:
        what = f"has no result row, it ends at: {shown(last, 120)}" if last else "is empty"
        raise CannotMeasure(f"the output of perftest {what}", next_step="run it between the two nodes by hand")
    return _report(test, settings, rows)


def _report(test: str, settings: dict[str, str], rows: Sequence[dict[str, float]]) -> Report:
    bandwidth: dict[int, Bandwidth] = {}
    latency: dict[int, Latency] = {}
    moved = [row for row in rows if row["#iterations"] > 0]
    for row in moved:
        size, iterations = int(row["#bytes"]), int(row["#iterations"])
        if name := next((name for name in row if name.startswith("BW average[")), ""):
            average = row[name] * _believed(row, name)
            if size not in bandwidth or average < bandwidth[size].average_gbps:
                bandwidth[size] = Bandwidth(size, iterations, average)
        elif "t_typical[usec]" in row or "t_avg[usec]" in row:
            latency[size] = Latency(size, iterations, row.get("t_typical[usec]"), row.get("t_avg[usec]"))
        else:
            raise _bad(" ".join(row))
    return Report(test, settings, tuple(bandwidth.values()), tuple(latency.values()), stalled=len(moved) < len(rows))


def trouble(stdout: str, stderr: str) -> Trouble | None:
    """The first sign of a failure in what a program printed; None if there is none."""
    raw = stderr + stdout
    if "\x1b" not in raw and not any(word in raw for word in _WORDS):
        return None  # of hundreds of good runs a node the lines need not be looked at
    said = [line for line in (*lines(stderr), *lines(stdout)) if not line.startswith("Conflicting CPU frequency")]
    for pattern, kind, next_step in _TROUBLES:
        place = next((place for place, line in enumerate(said) if pattern.search(line)), None)
        if place is None:
            continue
        # The status of a completion error is in its line or on the next one.
        status = next((int(match[1]) for match in map(_STATUS.search, said[place : place + 2]) if match), None)
        if status is None:
            return Trouble(kind, shown(said[place], 160), next_step)
        meaning = f" ({_COMPLETIONS[status]})" if status in _COMPLETIONS else ""
        what = f"completion with error, status {status}{meaning}"
        return Trouble("setup", what, _MEMORY) if status in _REFUSED else Trouble(kind, what, next_step)
    return None


def parse_version(written: str) -> str:
    """The version that --version prints ("Version: 6.06", with exit code 1); empty if there is none."""
    match = re.search(r"Version: ([\w.+-]{1,20})", written[:MAX_TEXT])
    return match[1] if match else ""


def options_in(help_text: str) -> frozenset[str]:
    """The long options that --help lists: they differ between builds (--use_cuda)."""
    return frozenset(re.findall(r"--([a-z][a-z0-9_-]{1,40})", help_text[:MAX_TEXT]))


def lines(written: str) -> list[str]:
    """The lines with content, without terminal codes and rulers."""
    plain = _ANSI.sub("", written[:MAX_TEXT]).replace("\r", "\n")
    return [line.strip() for line in plain.split("\n") if line.strip().strip("-*")]


def _row(columns: Sequence[str], line: str) -> dict[str, float]:
    words = line.split()
    if len(words) == len(columns) + 1 and columns[-1].startswith("BW average["):
        columns = [*columns, _RATE]  # the head is cut or wrapped, the row is not
    if len(words) != len(columns) or not words[1].isdigit():
        raise _bad(line)
    read = {name: word for name, word in zip(columns, words, strict=True) if name != _DEVIATION}
    if not all(_NUMBER.fullmatch(word) for word in read.values()):
        raise _bad(line)
    return {name: float(word) for name, word in read.items()}


def _believed(row: dict[str, float], name: str) -> float:
    """The factor to Gb/s: that of the head, or another one if the message rate contradicts the head and confirms it."""
    head, rate = name.partition("[")[2].rstrip("]"), row.get(_RATE, 0.0)
    if head not in _GBPS:
        raise _bad(name)
    unit = _GBPS[head]
    by_rate = rate * 1e6 * row["#bytes"] * 8 / 1e9
    if by_rate <= 0 or abs(row[name] * unit - by_rate) <= 0.2 * by_rate:
        return unit
    exact = (_ROUNDING + 0.5 * _LAST_DIGIT / rate) * by_rate
    return next((each for each in _GBPS.values() if abs(row[name] * each - by_rate) <= exact), unit)


def _bad(line: str) -> CannotMeasure:
    reason = f"the output of perftest cannot be read at: {shown(line, 120)}"
    return CannotMeasure(reason, next_step="run it between the two nodes by hand")
