"""Section `nvml`: every reading of every GPU separately, sent at once, so that a hang loses only what follows it."""

import ctypes
import importlib
import time
from types import ModuleType
from typing import Dict, List

from nodegate.node_side.probe import child, children, reading
from nodegate.node_side.probe.nvml_calls import ask, reading_of
from nodegate.node_side.probe.nvml_readings import READINGS, confidential

LIBRARY = "libnvidia-ml.so.1"
MOST_GPUS = 64
MOST_PEERS = 16  # GPUs: the time grows with their square
PEERS_S = 1.0
P2P = (0, 1)  # nvmlGpuP2PCapsIndex_t: read, write
SLOW_S = 5.0  # a driver that answers this late (GSP time-outs take 6 s per call) is not queried about this GPU any more


def read() -> object:
    """Send NVML's readings as parts: first the system's own values, then [index, key, value] of each GPU.

    Raises:
        reading.CannotRead: there is no NVML library, or it does not start.
    """
    library = _load()
    nvml = importlib.import_module("pynvml")
    ask(nvml, "nvmlInit")
    count = ask(nvml, "nvmlDeviceGetCount")
    child.emit(
        {
            "library": library,
            "driver_version": reading_of(nvml, "nvmlSystemGetDriverVersion"),
            "cuda_driver_version": reading_of(nvml, "nvmlSystemGetCudaDriverVersion_v2"),
            "confidential": confidential(nvml),
            "count": count,
        }
    )
    answered = [_read_gpu(nvml, index) for index in range(min(count, MOST_GPUS))]
    child.note("peer access of the GPUs")
    child.emit({"peers": _peers(nvml, answered)})
    return None


def section(outcome: children.Outcome) -> Dict[str, object]:
    """The section from what the child sent: complete, or up to where it hung, with the rest marked as not read."""
    duration = {"duration_s": round(outcome.duration_s, 4)}
    hung = outcome.unknown
    if not outcome.parts or (hung and hung["why"] not in ("timeout", "hung")):
        return dict(hung or reading.unknown("failed", "NVML sent nothing"), **duration)
    head: Dict[str, object] = {}
    gpus: Dict[int, Dict[str, object]] = {}
    for part in outcome.parts:
        if isinstance(part, dict):
            head.update(part)
        elif isinstance(part, list):
            index, key, value = part
            gpus.setdefault(index, {"index": index})[key] = value
    if hung:
        # The GPU that was being read lacks the reading that hung and those after it; later GPUs lack everything.
        not_read = reading.unknown("timeout", "not read: NVML hung before it ({})".format(hung["detail"]))
        for gpu in gpus.values():
            missing = [] if "handle" in gpu else [key for key in READINGS if key not in gpu]
            gpu.update({key: hung if key == missing[0] else not_read for key in missing})
        for index in range(min(int(str(head["count"])), MOST_GPUS)):
            gpus.setdefault(index, {"index": index, "handle": not_read})
        head["incomplete"] = hung
    head["gpus"] = [gpus[index] for index in sorted(gpus)]
    return dict(duration, data=head)


def _load() -> str:
    """Load the library before pynvml does, to distinguish a missing one from a broken one; its path."""
    child.note("loading " + LIBRARY)
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        why = "missing" if "No such file" in str(error) else "failed"
        raise reading.CannotRead(reading.unknown(why, str(error))) from None
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if "libnvidia-ml" in line]
    return paths[0] if paths else LIBRARY


def _peers(nvml: ModuleType, answered: List[bool]) -> object:
    """What the driver says of the peer access of each two GPUs that answer: [first, second, read, write]."""
    if not all(answered) or len(answered) > MOST_PEERS:
        return reading.unknown("failed", "not asked: a GPU does not answer, or there are too many")
    found: List[object] = []
    started = time.monotonic()
    try:
        handles = [ask(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(len(answered))]
        for second, theirs in enumerate(handles):
            for first, ours in enumerate(handles[:second]):
                if time.monotonic() - started > PEERS_S:
                    return reading.unknown("timeout", f"not asked of all GPUs: NVML took more than {PEERS_S:g} s")
                found.append(
                    [first, second, *(ask(nvml, "nvmlDeviceGetP2PStatus", ours, theirs, kind) for kind in P2P)]
                )
    except reading.CannotRead as error:
        return error.reading
    return found


def _read_gpu(nvml: ModuleType, index: int) -> bool:
    """Send the readings of a GPU; whether it answered, and in time."""
    child.note(f"GPU {index} nvmlDeviceGetHandleByIndex")
    try:
        handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index)
    except reading.CannotRead as error:
        child.emit([index, "handle", error.reading])
        return False
    slow = ""
    for key, reader in READINGS.items():
        if slow:
            child.emit([index, key, reading.unknown("timeout", "not asked: " + slow)])
            continue
        child.note(f"GPU {index} {key}")
        started = time.monotonic()
        child.emit([index, key, reader(nvml, handle)])
        took_s = time.monotonic() - started
        if took_s > SLOW_S:
            slow = f"NVML took {took_s:.1f} s for {key} of this GPU"
    return not slow
