"""The burn: every GPU of the node at once, each in its own process; one document on stdout.

The document is described in docs/burn-document.md. It is sent as one line of text: WIRE, then the compressed JSON in
base64.
"""

import base64
import functools
import importlib
import json
import sys
import time
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from nodegate.node_side.load import cublas, load, ptx, sampler
from nodegate.node_side.load.board import Board
from nodegate.node_side.probe import child, children, reading
from nodegate.node_side.probe.nvml_readings import READINGS, ask, reading_of

SCHEMA = "nodegate.burn/1"
WIRE = b"nodegate.burn/1+zlib:"
MOST_CHARACTERS = 90_000
MOST_GPUS = 64
SURVEY_LIMIT_S = 60.0
WARM_UP_S = 2.0
IN_USE = (
    0.1  # share of its memory from which a GPU counts as in use although no process is visible (containers hide them)
)
_SEEN = ("uuid", "bus_id", "name", "memory_total_bytes", "memory_used_bytes", "mig_mode", "processes")
_PART_BYTES = 4 << 20

Entry = Dict[str, Any]


class Options(NamedTuple):
    """How the burn is done; docs/burn-document.md."""

    seconds: float
    phases: Sequence[Tuple[str, float]] = (("bf16", 0.7), ("fp32", 0.3))
    matrix: int = 8192
    path: str = "auto"
    library: str = ""
    gpus: Optional[Sequence[int]] = None
    busy_ok: bool = False
    memory: float = 0.9
    start_limit_s: float = 120.0
    answer_limit_s: float = 60.0

    def plan(self) -> "List[load.Phase]":
        """The phases in seconds."""
        whole = sum(share for _, share in self.phases)
        return [load.Phase(dtype, self.seconds * share / whole, self.matrix) for dtype, share in self.phases]


def main(**options: Any) -> None:
    """Burn, then write the document."""
    children.adopt_orphans()
    importlib.import_module("pynvml")  # once, before there are many processes
    document = burn(Options(**options), time.monotonic())
    children.end_all()
    sys.stdout.buffer.write(b"\n" + WIRE + fitted(document) + b"\n")
    sys.stdout.buffer.flush()


def burn(options: Options, began: float) -> Entry:
    """The document."""
    seen = children.run({"": child.Task(survey, SURVEY_LIMIT_S)})[""]
    node: Entry = seen.value if isinstance(seen.value, dict) else {}
    entries = [each for each in node.get("gpus", []) if options.gpus is None or each["index"] in options.gpus]
    document: Entry = {
        "schema": SCHEMA,
        "driver": node.get("driver", seen.unknown),
        "cuda_driver_version": node.get("cuda_driver_version", seen.unknown),
        "path": "",
        "library": "",
        "library_version": 0,
        "library_refused": "",
        "phases": [phase._asdict() for phase in options.plan()],
        "gpus": [],
        "refused": str(seen.unknown["detail"]) if seen.unknown else refusal(options, entries),
    }
    library = _library(options, node)
    if options.path == "cublas" and not library and not document["refused"]:
        document["refused"] = "cuBLAS was not found on this node"
    if document["refused"]:
        document["gpus"] = [identity(each) for each in entries]
        return document
    _burn_with(document, options, entries, library, began)
    refusals = [each["error"] for each in document["gpus"] if each["of_library"]]
    if options.path == "auto" and refusals and all(each.get("started_s") is None for each in document["gpus"]):
        document["library_refused"] = f"{library}: {refusals[0]}"
        _burn_with(document, options, entries, "", began)
    for each in document["gpus"]:
        del each["of_library"]
    return document


def survey() -> object:
    """The GPUs as NVML sees them, and the processes that use them."""
    child.note("NVML start")
    nvml = importlib.import_module("pynvml")
    ask(nvml, "nvmlInit")
    return {
        "driver": reading_of(nvml, "nvmlSystemGetDriverVersion"),
        "cuda_driver_version": reading_of(nvml, "nvmlSystemGetCudaDriverVersion_v2"),
        "gpus": [_seen(nvml, index) for index in range(min(ask(nvml, "nvmlDeviceGetCount"), MOST_GPUS))],
    }


def _seen(nvml: Any, index: int) -> Entry:
    child.note(f"NVML GPU {index}")
    try:
        handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index)
    except reading.CannotRead as error:
        return {"index": index, "error": error.reading["detail"]}
    found: Entry = {name: READINGS[name](nvml, handle) for name in _SEEN}
    lacking = [found[name]["detail"] for name in ("uuid", "bus_id", "name") if isinstance(found[name], dict)]
    return dict(found, index=index, error=lacking[0] if lacking else "")


def refusal(options: Options, entries: "List[Entry]") -> str:
    """Why these GPUs must not be loaded; "" if they may."""
    bad = [dtype for dtype, _ in options.phases if dtype not in ptx.BYTES]
    if bad or not options.phases:
        return f"unknown dtype: {bad}"
    there = {each["index"] for each in entries}
    absent = [index for index in options.gpus or () if index not in there]
    if absent or not entries:
        return "NVML does not list GPU {}".format(", ".join(map(str, absent))) if absent else "NVML does not list GPU"
    reasons = [reason for each in entries if not each["error"] for reason in [_in_use(each, options.busy_ok)] if reason]
    return "; ".join(reasons[:4])


def _in_use(gpu: Entry, busy_ok: bool) -> str:
    name = "GPU {}".format(gpu["index"])
    if isinstance(gpu["mig_mode"], list) and gpu["mig_mode"][0]:
        return f"{name} is split by MIG"
    if busy_ok:
        return ""
    processes, used, total = gpu["processes"], gpu["memory_used_bytes"], gpu["memory_total_bytes"]
    if isinstance(processes, dict):
        return "{}: the processes that use it cannot be read ({})".format(name, processes["detail"])
    computing = [each for each in processes if each["kind"] != "graphics"]
    if computing:
        named = ["process {} ({})".format(each["pid"], each["name"] or "?") for each in computing[:3]]
        return "{} is in use by {}".format(name, ", ".join(named))
    if isinstance(used, int) and isinstance(total, int) and used > IN_USE * total:
        return f"{name} has {used / 2**30:.1f} GiB of its memory in use, without a visible process"
    return ""


def _library(options: Options, node: Entry) -> str:
    if options.library and options.path != "ptx":
        return options.library
    version = node.get("cuda_driver_version")
    return cublas.find(version) if options.path != "ptx" and isinstance(version, int) else ""


def _burn_with(document: Entry, options: Options, entries: "List[Entry]", library: str, began: float) -> None:
    """Load all GPUs that have a handle, with cuBLAS or nodegate's kernels; fills in the rest of the document."""
    document.update(path="cublas" if library else "ptx", library=library)
    good = [each for each in entries if not each["error"]]
    board = Board(len(good))
    until = time.monotonic() + options.start_limit_s
    limit_s = options.start_limit_s + options.seconds + options.answer_limit_s
    length_s = sampler.window_s(options.seconds, len(good))
    tasks: Dict[str, child.Task] = {}
    for slot, each in enumerate(good):
        limits = until, options.start_limit_s, options.answer_limit_s
        job = load.Job(slot, each["uuid"], each["bus_id"], tuple(options.plan()), library, options.memory, *limits)
        index = each["index"]
        tasks[f"load {index}"] = child.Task(functools.partial(load.run, job, board), limit_s, _PART_BYTES)
        sample = functools.partial(sampler.run, index, slot, board, length_s)
        tasks[f"samples {index}"] = child.Task(sample, limit_s, _PART_BYTES)
    outcomes = children.run(tasks)
    document["gpus"] = [
        dict(identity(each), of_library=False)
        if each["error"]
        else _gpu(
            each,
            outcomes["load {}".format(each["index"])],
            outcomes["samples {}".format(each["index"])],
            options,
            began,
        )
        for each in entries
    ]
    for each in document["gpus"]:
        each["path"] = document["path"]
    document["library_version"] = max([each.pop("library_version", 0) for each in document["gpus"]])


def identity(seen: Entry) -> Entry:
    """The head of a GPU's entry."""
    if seen["error"]:
        return {"index": seen["index"], "error": seen["error"]}
    return {
        "index": seen["index"],
        "uuid": seen["uuid"],
        "pci": seen["bus_id"],
        "name": seen["name"],
        "memory_total_bytes": seen["memory_total_bytes"],
        "error": "",
    }


def _gpu(seen: Entry, loaded: children.Outcome, sampled: children.Outcome, options: Options, began: float) -> Entry:
    """A GPU's entry from what its two processes sent."""
    entry = identity(seen)
    for part in load.progress(loaded.parts, "gpu"):
        entry.update(part)  # type: ignore[call-overload]
    started = load.started(loaded.parts)
    final: Entry = loaded.value if isinstance(loaded.value, dict) else {}
    entry["started_s"] = None if started is None else round(started - began, 3)
    entry["error"] = final.get("error", "") or _failure(loaded, started is not None, options)
    entry["of_library"] = bool(final.get("of_library")) and started is None
    entry["phases"] = phases(loaded.parts)
    entry["samples"] = _samples(sampled)
    return entry


def _failure(loaded: children.Outcome, started: bool, options: Options) -> str:
    """What ended a process that did not report it itself."""
    if not loaded.unknown:
        return ""
    detail = str(loaded.unknown["detail"])
    limit_s = options.answer_limit_s if started else options.start_limit_s
    return detail.replace("ended by SIGALRM", f"no answer within {limit_s:g} s")


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
    warm = min(WARM_UP_S, seconds / 10)
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


def _samples(sampled: children.Outcome) -> Entry:
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
        "energy_j": final.get("energy_j", none),
    }


def fitted(document: Entry) -> bytes:
    """The document as sent, its windows merged until it is within the limit."""
    while True:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        wire = base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9))
        longest = max([len(each["samples"]["windows"]) for each in document["gpus"] if "samples" in each] or [0])
        if len(wire) + len(WIRE) <= MOST_CHARACTERS or longest <= 2:
            return wire
        for each in document["gpus"]:
            if "samples" in each:
                each["samples"]["windows"] = sampler.merged(each["samples"]["windows"])
