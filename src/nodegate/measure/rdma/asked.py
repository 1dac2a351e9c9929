"""Whether what perftest printed is the result of what was asked: its end, its device, its size and its time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegate.records.program_run import ProgramRun
    from nodegate.tools.perftest import Report

AT_ONCE = "-b"  # perftest's option for both directions at once: its rates are then those of both together
_TIMED_FROM_S = 3  # a shorter run is mostly start and end
_LEAST_OF_TIME = 0.5
_SIGNALS_FROM = 128  # what a shell adds to the number of a signal


def unlike_asked(ran: ProgramRun, report: Report) -> str:
    """How a result differs from what the command line asked for; empty where it does not."""
    if ran.exit_code and not ran.timed_out:
        return f"it printed a result and {_ended(ran.exit_code)}"
    device, used = _option(ran, "-d"), report.settings.get("Device", "")
    if device and used and used != device:
        return f"it used {used[:40]}, not the requested {device}"
    size = _number(ran, "-s")
    sizes = {row.size_bytes for row in report.bandwidth} | {row.size_bytes for row in report.latency}
    if size and sizes and size not in sizes:
        return f"it transferred {', '.join(map(str, sorted(sizes)))} bytes at a time, not the requested {size}"
    if AT_ONCE in ran.argv and report.test and "Bidirectional" not in report.test:
        return "it transferred in one direction, not in both at once as requested"
    seconds = _number(ran, "-D")
    if seconds >= _TIMED_FROM_S and 0 < ran.duration_s < _LEAST_OF_TIME * seconds:
        return f"it ended after {ran.duration_s:.1f} s, not after the requested {seconds} s"
    return ""


def size_asked(ran: ProgramRun) -> int:
    """The size of a message that was asked for, in bytes; 0 where the command line names none."""
    return _number(ran, "-s")


def seconds_asked(ran: ProgramRun) -> int:
    """The time that was asked for, in seconds; 0 where the command line names none."""
    return _number(ran, "-D")


def fabric_asked(ran: ProgramRun) -> dict[str, str]:
    """The traffic class, the service level and the way to GPU memory that were asked for."""
    words = ran.argv
    tclass = next((word.partition("=")[2] for word in words if word.startswith("--tclass=")), "")
    level = next((word for before, word in pairwise(words) if before == "-S" and word.isdigit()), "")
    way = "dma-buf" if "--use_cuda_dmabuf" in words else "nvidia_peermem"
    way = "data direct" if "--use_data_direct" in words else way
    gpu = any(word.startswith(("--use_cuda=", "--use_cuda_bus_id=")) for word in words)
    found = {"traffic_class": tclass, "service_level": level, "gpu_memory": way if gpu else ""}
    return {name: value for name, value in found.items() if value}


def _ended(code: int) -> str:
    if code < 0 or code > _SIGNALS_FROM:
        return f"was ended by signal {-code if code < 0 else code - _SIGNALS_FROM}"
    return f"exit code {code}"


def _option(ran: ProgramRun, name: str) -> str:
    words = ran.argv
    return next((words[place + 1] for place, word in enumerate(words[:-1]) if word == name), "")


def _number(ran: ProgramRun, name: str) -> int:
    text = _option(ran, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
