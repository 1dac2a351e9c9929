"""The burn's document from what the processes of its GPUs sent."""

import base64
import json
import sys
import zlib
from typing import Any, Dict, List, Set, Tuple

from nodegate.node_side.load import load, sampler
from nodegate.node_side.probe import children, reading

_WARM_UP_S = 2.0

Entry = Dict[str, Any]


def phases(parts: "List[object]") -> "List[Entry]":
    """The phases of a GPU from the parts that it sent."""
    found: List[Entry] = []
    for number, head in enumerate(load.progress(parts, "phase")):
        windows = [each[1:] for each in load.progress(parts, "window") if each[0] == number]  # type: ignore[index]
        mismatches = [each for each in load.progress(parts, "mismatch") if each["phase"] == number]  # type: ignore[index]
        found.append(_phase(dict(head), windows, mismatches))  # type: ignore[call-overload]
    return found


def _phase(head: Entry, windows: "List[Any]", mismatches: "List[Any]") -> Entry:
    """One phase; a window is [end since the start, end in the phase, products, their seconds, mismatches]."""
    work = 2e-12 * head["matrix"] ** 3  # TFLOP of one product
    seconds = windows[-1][1] if windows else 0.0
    warm = min(_WARM_UP_S, seconds / 10)
    dropped = min(sum(each[1] <= warm for each in windows) or 1, len(windows) - 1) if windows else 0
    kept = windows[dropped:]
    first = {name: value for name, value in mismatches[0].items() if name != "phase"} if mismatches else None
    busy = sum(each[3] for each in kept)
    return dict(
        head,
        iterations=sum(each[2] for each in windows),
        seconds=seconds,
        tflops=_rounded(work * sum(each[2] for each in kept) / busy) if busy else None,
        tflops_windows=[_rounded(work * each[2] / each[3]) for each in windows],
        windows_s=[each[0] for each in windows],
        warm_up_windows=dropped,
        mismatches=sum(each[4] for each in windows),
        first_mismatch=first,
    )


def _rounded(tflops: float) -> float:
    """Five digits: a mock's or a small matrix's are not 0."""
    return float(f"{tflops:.5g}")


def odd_types(gpus: "List[Entry]") -> "List[str]":
    """The dtypes in which the first results of GPUs that are alike differ."""
    results: Dict[Tuple[object, ...], Set[str]] = {}
    for gpu in gpus:
        for phase in gpu.get("phases", []):
            alike = gpu.get("name"), gpu.get("multiprocessors"), phase["dtype"], phase["matrix"]
            results.setdefault(alike, set()).add(phase["checksum"])
    return [str(alike[2]) for alike, checksums in results.items() if len(checksums) > 1]


def samples(sampled: children.Outcome) -> Entry:
    """What NVML showed of a GPU, from what the process that watched it sent."""
    final: Entry = sampled.value if isinstance(sampled.value, dict) else {}
    windows = load.progress(sampled.parts, "window")
    none = reading.unknown("failed", "sampling ended early")
    return {
        "interval_s": sampler.INTERVAL_S,
        "count": final.get("count", sum(each["count"] for each in windows)),  # type: ignore[index]
        "error": final.get("lost", "") or (str(sampled.unknown["detail"]) if sampled.unknown else ""),
        "unread": final.get("unread", {}),
        "windows": windows,
        "violations_ns": final.get("violations_ns", none),
    }


def send(mark: bytes, document: Entry, most: int = 1 << 30) -> None:
    """Write the document as one line of at most so many characters."""
    sys.stdout.buffer.write(b"\n" + mark + fitted(document, most - len(mark)) + b"\n")
    sys.stdout.buffer.flush()


def fitted(document: Entry, most: int) -> bytes:
    """The document as sent, its windows merged until it has at most this many characters."""
    while True:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        wire = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9))
        longest = max([len(each["samples"]["windows"]) for each in document["gpus"] if "samples" in each] or [0])
        if len(wire) <= most or longest <= 2:
            return wire
        for each in document["gpus"]:
            if "samples" in each:
                each["samples"]["windows"] = sampler.merged(each["samples"]["windows"])
