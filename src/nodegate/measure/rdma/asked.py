"""Whether what perftest printed is the result of what was asked: its end, its device, its size and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.measure.program_run import count_asked, option

if TYPE_CHECKING:
    from nodegate.records.program_run import ProgramRun
    from nodegate.tools.perftest import Report

SIZE, SECONDS = "-s", "-D"  # perftest's options for the bytes of a message, and for the time
AT_ONCE = "-b"  # perftest's option for both directions at once: its rates are then those of both together
_TIMED_FROM_S = 3  # a shorter run is mostly start and end
_LEAST_OF_TIME = 0.5
_SIGNALS_FROM = 128  # what a shell adds to the number of a signal


def unlike_asked(ran: ProgramRun, report: Report) -> str:
    """How a result differs from what the command line asked for; empty where it does not."""
    if ran.exit_code and not ran.timed_out:
        return f"it printed a result and {_ended(ran.exit_code)}"
    device, used = option(ran, "-d"), report.settings.get("Device", "")
    if device and used and used != device:
        return f"it used {used[:40]}, not the requested {device}"
    size = count_asked(ran, SIZE)
    sizes = {row.size_bytes for row in report.bandwidth} | {row.size_bytes for row in report.latency}
    if size and sizes and size not in sizes:
        return f"it transferred {', '.join(map(str, sorted(sizes)))} bytes at a time, not the requested {size}"
    if AT_ONCE in ran.argv and report.test and "Bidirectional" not in report.test:
        return "it transferred in one direction, not in both at once as requested"
    seconds = count_asked(ran, SECONDS)
    if seconds >= _TIMED_FROM_S and 0 < ran.duration_s < _LEAST_OF_TIME * seconds:
        return f"it ended after {ran.duration_s:.1f} s, not after the requested {seconds} s"
    return ""


def fabric_asked(ran: ProgramRun) -> dict[str, str]:
    """The traffic class, the service level and the way to GPU memory that were asked for."""
    words = ran.argv
    tclass = next((word.partition("=")[2] for word in words if word.startswith("--tclass=")), "")
    level = option(ran, "-S")
    way = "dma-buf" if "--use_cuda_dmabuf" in words else "nvidia_peermem"
    way = "data direct" if "--use_data_direct" in words else way
    gpu = any(word.startswith(("--use_cuda=", "--use_cuda_bus_id=")) for word in words)
    found = {
        "traffic_class": tclass,
        "service_level": level if level.isdigit() else "",
        "gpu_memory": way if gpu else "",
    }
    return {name: value for name, value in found.items() if value}


def _ended(code: int) -> str:
    if code < 0 or code > _SIGNALS_FROM:
        return f"was ended by signal {-code if code < 0 else code - _SIGNALS_FROM}"
    return f"exit code {code}"
