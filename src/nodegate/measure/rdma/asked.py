"""Whether what perftest printed is the result of what was asked, and what the ports themselves counted."""

from collections.abc import Iterator
from itertools import pairwise

from nodegate.measure.program_run import count_asked, option
from nodegate.records.program_run import Path, ProgramRun, Role
from nodegate.tools.perftest import Report

SIZE, SECONDS = "-s", "-D"  # perftest's options for the bytes of a message, and for the time
AT_ONCE = "-b"  # perftest's option for both directions at once: its rates are then those of both together
_TIMED_FROM_S = 3  # a shorter run is mostly start and end
_LEAST_OF_TIME = 0.5
_SIGNALS_FROM = 128  # what a shell adds to the number of a signal
_WORD_BYTES = 4  # port_xmit_data and port_rcv_data, in every driver that has them
_FULL = 1 << 32  # drivers without the wide counters stop here, or begin again
_LEAST_SHARE = 0.75  # headers come on top and perftest leaves out its begin and end: a good port counts more than 1
_TIMED_SHARE = 0.5  # of the seconds that were asked for, perftest takes at least half as its own time


def sends(role: Role, test: str) -> bool:
    """Whether this end of a link sends the data: a client writes to its server, and reads from it."""
    return (role is Role.CLIENT) != ("read" in test)


def unlike_asked(ran: ProgramRun, report: Report) -> str:
    """How a result differs from what the command line asked for; empty where it does not."""
    code = ran.exit_code
    if code and not ran.timed_out:
        signal = -code if code < 0 else code - _SIGNALS_FROM
        return f"it printed a result and {f'was ended by signal {signal}' if signal > 0 else f'exit code {code}'}"
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
    level = next((word for before, word in pairwise(words) if before == "-S" and word.isdigit()), "")
    tclass = next((word.partition("=")[2] for word in words if word.startswith("--tclass=")), "")
    way = "dma-buf" if "--use_cuda_dmabuf" in words else "nvidia_peermem"
    way = "data direct" if "--use_data_direct" in words else way
    gpu = any(word.startswith(("--use_cuda=", "--use_cuda_bus_id=")) for word in words)
    found = {"traffic_class": tclass, "service_level": level, "gpu_memory": way if gpu else ""}
    return {name: value for name, value in found.items() if value}


def unlike_counted(ran: ProgramRun, report: Report) -> str:
    """How much less a port moved than the result says; empty where it agrees, or cannot tell."""
    claimed = _claimed_bytes(ran, report)
    for counter, moved in _counted(ran, claimed):
        if moved < _LEAST_SHARE * claimed:
            said = f"perftest reports that it transferred {_gigabytes(claimed)}, and {counter} counted"
            return f"{said} {_gigabytes(moved)}: another port was used, or nothing was transferred"
    return ""


def is_unconfirmed(ran: ProgramRun, report: Report) -> bool:
    """Whether counters were looked for, and none of them can tell whether the result is true."""
    between = ran.plan.link is not None and ran.plan.link.path is Path.BETWEEN
    asked = between and any(end.counted is not None for end in (ran.link.client, ran.link.server))
    claimed = _claimed_bytes(ran, report)
    return asked and claimed > 0 and not any(_counted(ran, claimed))


def _claimed_bytes(ran: ProgramRun, report: Report) -> float:
    """What a bandwidth test says that it moved, by its iterations or by its rate and time; 0 for others."""
    asked, ways = count_asked(ran, SIZE), 2 if AT_ONCE in ran.argv else 1  # the rows count what this end sends
    rows = [row for row in report.bandwidth if asked in (0, row.size_bytes)]
    by_time = count_asked(ran, SECONDS) * _TIMED_SHARE * 1e9 / 8
    return max((max(row.iterations * row.size_bytes, row.average_gbps / ways * by_time) for row in rows), default=0.0)


def _counted(ran: ProgramRun, claimed_bytes: float) -> Iterator[tuple[str, float]]:
    """The counters of what was claimed, of both ends, and the bytes that they moved: of those that can tell.

    Those count at all, went on, and have room for what was claimed. Two ports in a bond share the load. Inside a node
    data may not leave the adapter.
    """
    link = ran.plan.link
    if link is None or link.path is not Path.BETWEEN:
        return
    for role, end in ((Role.CLIENT, ran.link.client), (Role.SERVER, ran.link.server)):
        if end.counted and len(end.counted) == 4 and min(end.counted) >= 0:
            out = sends(role, ran.what)
            before, after = end.counted[0::2] if out else end.counted[1::2]
            whose = link.device if role is link.role else f"{link.peer} {link.peer_device}"
            has_room = max(end.counted) >= _FULL or before + claimed_bytes / _WORD_BYTES < _FULL
            if after >= max(before, 1) and has_room and "bond" not in whose:
                yield f"{'port_xmit_data' if out else 'port_rcv_data'} of {whose}", (after - before) * _WORD_BYTES


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
