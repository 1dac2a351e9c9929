"""The burn: every GPU of the node at once, each in its own process; one document on stdout.

The document is described in docs/reference/burn-document.md. It is sent as one line of text: WIRE, then the compressed
JSON in base64.
"""

import base64
import functools
import importlib
import json
import sys
import time
import zlib
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from nodegate.node_side.load import find_cublas, load, products, sampler
from nodegate.node_side.load.load import Phase
from nodegate.node_side.load.turns import Turns
from nodegate.node_side.probe import child, children, driver, reading, system
from nodegate.node_side.probe.nvml_calls import ask, reading_of
from nodegate.node_side.probe.nvml_readings import READINGS

SCHEMA = "nodegate.burn/1"
WIRE = b"nodegate.burn/1+zlib:"
MOST_CHARACTERS = 90_000
MOST_GPUS = 64
SURVEY_LIMIT_S = 60.0
IN_USE = 0.1  # share of its memory from which a GPU counts as in use without a visible process: containers hide them
_SEEN = ("uuid", "bus_id", "name", "memory_total_bytes", "memory_used_bytes", "mig_mode", "processes")
_PART_BYTES = 4 << 20
_AGAIN_S = 4.0
_WARM_UP_S = 2.0
_OF_SECOND = ("index", "name", "multiprocessors", "error", "phases")

Entry = Dict[str, Any]


class Options(NamedTuple):
    """How the burn is done; docs/reference/burn-document.md."""

    seconds: float
    phases: Sequence[Tuple[str, float]] = (("bf16", 0.7), ("fp32", 0.3))
    matrix: int = 8192
    path: str = "auto"
    library: str = ""
    places: Sequence[Tuple[str, str]] = ()
    not_brought: str = ""
    start_limit_s: float = 120.0
    answer_limit_s: float = 60.0

    def plan(self) -> "List[Phase]":
        """The phases in seconds."""
        whole = sum(share for _, share in self.phases)
        return [Phase(dtype, self.seconds * share / whole, self.matrix) for dtype, share in self.phases]


def main(**options: Any) -> None:
    """Burn, then write the document."""
    children.adopt_orphans()
    driver.hold_open()
    importlib.import_module("pynvml")  # once, before there are many processes
    document = burn(Options(**options), time.monotonic())
    children.end_all()
    send(WIRE, document, MOST_CHARACTERS)


def burn(options: Options, began: float) -> Entry:
    """The document."""
    head, entries = looked_at()
    document: Entry = {
        **head,
        "schema": SCHEMA,
        "library_version": 0,
        "libraries": [],
        "again": [],
        "gpus": [],
        **dict.fromkeys(("path", "library", "library_refused", "library_why"), ""),
        "phases": [phase._asdict() for phase in options.plan()],
    }
    if document["refused"]:
        document["gpus"] = [identity(each) for each in entries]
        return document
    _burn_with_the_best(document, options, entries, began)
    _again_with_own_kernels(document, options, entries, began)
    for each in document["gpus"]:
        each.pop("of_library", None)
    return document


def _burn_with_the_best(document: Entry, options: Options, entries: "List[Entry]", began: float) -> None:
    """With the first library that starts; with nodegate's own kernels where none does.

    A library that fails on every GPU before the load (it does not load, has no code for them, crashes) gives way to
    the next; once that has cost the time of a start, to nodegate's own kernels.
    """
    libraries: List[Entry] = []
    if options.library and options.path != "ptx":
        libraries = [find_cublas.Library(options.library, (), "the caller")._asdict()]
    elif options.path != "ptx":
        libraries = find_cublas.entries(document["cuda_driver_version"], options.places)
        if options.not_brought:
            libraries.append(find_cublas.Library("libcublas.so", (), "--tools", options.not_brought)._asdict())
    for library in [each for each in libraries if not each["refused"]]:
        if time.monotonic() - began > options.start_limit_s:
            library["refused"] = "not tried: the start with others took too long"
            continue
        _burn_with(document, options, entries, library["path"], began)
        refusals = [each["error"] for each in document["gpus"] if each["of_library"]]
        if not refusals or any(each.get("started_s") is not None for each in document["gpus"]):
            break
        library["refused"] = refusals[0]
    else:
        if options.path == "cublas":
            document["refused"] = "" if document["gpus"] else "cuBLAS was not found on this node"
            document["gpus"] = document["gpus"] or [identity(each) for each in entries]
        else:
            _burn_with(document, options, entries, "", began)
            document["library_refused"] = "; ".join("{path}: {refused}".format(**each) for each in libraries)
    document.update(libraries=libraries, library_why=find_cublas.why(document["library"], libraries))


def _again_with_own_kernels(document: Entry, options: Options, entries: "List[Entry]", began: float) -> None:
    """Where cuBLAS gave GPUs that are alike different bits: the same types of numbers with nodegate's own kernels.

    The bits of these do not depend on what NVIDIA's library chooses for a GPU.
    """
    odd = {dtype if dtype in products.BYTES else "bf16" for dtype in _odd_types(document["gpus"])}
    if document["path"] != "cublas" or not odd:
        return
    worked = {each["index"] for each in document["gpus"] if not each["error"]}
    short = options._replace(seconds=_AGAIN_S * len(odd), phases=[(dtype, 1.0) for dtype in sorted(odd)])
    second: Entry = {}
    _burn_with(second, short, [each for each in entries if each["index"] in worked], "", began)
    document["again"] = [{name: each.get(name) for name in _OF_SECOND} for each in second["gpus"]]


def looked_at() -> "Tuple[Entry, List[Entry]]":
    """What a document says of the node, with why its GPUs must not be loaded ("" if they may); and these GPUs."""
    seen = children.run({"": child.Task(survey, SURVEY_LIMIT_S)})[""]
    node: Entry = seen.value if isinstance(seen.value, dict) else {}
    entries = node.get("gpus", [])
    head = {name: node.get(name, seen.unknown) for name in ("driver", "cuda_driver_version")}
    return dict(head, refused=str(seen.unknown["detail"]) if seen.unknown else refusal(entries)), entries


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


def refusal(entries: "List[Entry]") -> str:
    """Why these GPUs must not be loaded; "" if they may."""
    if not entries:
        return "NVML does not list GPU"
    reasons = [_in_use(each) for each in entries if not each["error"]]
    if any(reasons):
        return "; ".join([reason for reason in reasons if reason][:4])
    daemons = system.mps_daemons()  # a control daemon alone has no process on a GPU yet: ours would start its server
    return f"MPS runs on this node (process {daemons[0]}): {system.STOP_MPS}" if daemons else ""


def _in_use(gpu: Entry) -> str:
    name = "GPU {}".format(gpu["index"])
    if isinstance(gpu["mig_mode"], list) and gpu["mig_mode"][0]:
        return f"{name} is split by MIG"
    processes, used, total = gpu["processes"], gpu["memory_used_bytes"], gpu["memory_total_bytes"]
    if isinstance(processes, dict):
        return "{}: the processes that use it cannot be read ({})".format(name, processes["detail"])
    computing = [each for each in processes if each["kind"] != "graphics" and not system.is_resident(each["name"])]
    if computing:
        named = ["process {} ({})".format(each["pid"], each["name"] or "?") for each in computing[:3]]
        return "{} is in use by {}".format(name, ", ".join(named))
    servers = [each["pid"] for each in processes if system.is_mps(each["name"])]
    if servers:
        return f"{name} is shared by an MPS server (process {servers[0]}): {system.STOP_MPS}"
    full = isinstance(used, int) and isinstance(total, int) and used > IN_USE * total
    return f"{name} has {used / 2**30:.1f} GiB of its memory in use, without a visible process" if full else ""


def _burn_with(document: Entry, options: Options, entries: "List[Entry]", library: str, began: float) -> None:
    """Load all GPUs that have a handle, with cuBLAS or nodegate's kernels; fills in the rest of the document."""
    document.update(path="cublas" if library else "ptx", library=library)
    good = [each for each in entries if not each["error"]]
    turns = Turns(len(good), {})
    until = time.monotonic() + options.start_limit_s
    limit_s = options.start_limit_s + options.seconds + options.answer_limit_s
    length_s = sampler.window_s(options.seconds, len(good))
    tasks: Dict[str, child.Task] = {}
    for slot, each in enumerate(good):
        index = each["index"]
        what = tuple(options.plan()), library, until, options.start_limit_s, options.answer_limit_s
        job = load.Job(slot, each["uuid"], each["name"], each["bus_id"], *what)
        tasks[f"load {index}"] = child.Task(functools.partial(load.run, job, turns), limit_s, _PART_BYTES)
        sample = functools.partial(sampler.run, index, slot, turns, length_s)
        tasks[f"samples {index}"] = child.Task(sample, limit_s, _PART_BYTES)
    outcomes = children.run(tasks)
    document["gpus"] = []
    for each in entries:
        entry = dict(identity(each), of_library=False, path=document["path"])
        if not each["error"]:
            loaded, sampled = (outcomes["{} {}".format(what, each["index"])] for what in ("load", "samples"))
            entry.update(_told(loaded, options, began), samples=_samples_of(sampled))
        document["gpus"].append(entry)
    document["library_version"] = max([each.pop("library_version", 0) for each in document["gpus"]])


def identity(seen: Entry) -> Entry:
    """The head of a GPU's entry."""
    known = () if seen["error"] else ("uuid", "name", "memory_total_bytes")
    entry = {name: seen[name] for name in ("index", "error", *known)}
    return dict(entry, pci=seen["bus_id"]) if known else entry


def _told(loaded: children.Outcome, options: Options, began: float) -> Entry:
    entry: Entry = {}
    for part in load.progress(loaded.parts, "gpu"):
        entry.update(part)  # type: ignore[call-overload]
    started = [float(str(each)) for each in load.progress(loaded.parts, "started")]
    final: Entry = loaded.value if isinstance(loaded.value, dict) else {}
    # what ended a process that did not report it itself
    ended = str(loaded.unknown["detail"]) if loaded.unknown else ""
    in_library = ended.rpartition(", at ")[2].startswith(("cublas", "loading /"))
    limit_s = options.answer_limit_s if started else options.start_limit_s
    entry["started_s"] = round(started[0] - began, 3) if started else None
    entry["error"] = final.get("error", "") or ended.replace("ended by SIGALRM", f"no answer within {limit_s:g} s")
    entry["of_library"] = not started and (bool(final.get("of_library")) or in_library)
    entry["phases"] = _phases_of(loaded.parts)
    return entry


def _phases_of(parts: "List[object]") -> "List[Entry]":
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


def _odd_types(gpus: "List[Entry]") -> "List[str]":
    """The dtypes in which the first results of GPUs that are alike differ."""
    results: Dict[Tuple[object, ...], Set[str]] = {}
    for gpu in gpus:
        for phase in gpu.get("phases", []):
            alike = gpu.get("name"), gpu.get("multiprocessors"), phase["dtype"], phase["matrix"]
            results.setdefault(alike, set()).add(phase["checksum"])
    return [str(alike[2]) for alike, checksums in results.items() if len(checksums) > 1]


def _samples_of(sampled: children.Outcome) -> Entry:
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
