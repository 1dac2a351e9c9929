"""The copies of a made-up node: the document of docs/reference/copies-document.md, and what nvbandwidth 0.8 prints."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet.changes import changes
from fleet.load import boards
from fleet.load.boards import Figures
from fleet.load.plan import BEGIN_S, BURN_S, Attempts, near, wire
from fleet.machine import Machine
from nodegate.measure.copies.document import ALONE, AT_ONCE, BOTH, COPY, IN, INSIDE, OUT, READ, SCHEMA, TRIAD, WIRE
from nodegate.measure.copies.result import OTHER, OWN
from nodegate.measure.copies.run import CASES, options_for
from nodegate.measure.durations import OF_PROFILE
from nodegate.node_side.load.memory import PASSES
from nodegate.profile import Profile
from nodegate.records.program_run import Attempt, Plan, ProgramRun

Document = dict[str, Any]
NAME = "gpu_copies"
_OPTIONS = options_for(OF_PROFILE[Profile.DELIVERY])
_LANES = 16
_OVER_ENGINE = 1.2
_KERNELS = {READ: 1.02, COPY: 1.0, TRIAD: 1.0}
_NOT_READY = "CUDA_ERROR_SYSTEM_NOT_READY"


def recorded(machines: Sequence[Machine]) -> Mapping[str, Attempts]:
    """What each node's copies left."""
    return {machine.name: _attempts(machine) for machine in machines if NAME not in machine.load.refused}


@changes
def trained_down(document: Document, index: int, width: int) -> None:
    """A GPU whose link comes down to so many lanes as soon as it has work; it had all of them before."""
    gpu = document["gpus"][index]
    for each in gpu["copies"]:
        if (each["what"], each["when"]) in {(OUT, ALONE), (IN, ALONE), (BOTH, ALONE)}:
            each.update(_rates(each["gb_per_s"] * width / _LANES))
        elif each["when"] == AT_ONCE:
            each.update(_rates(min(each["gb_per_s"], _alone(gpu, each["what"]))))
    for when in (ALONE, AT_ONCE):
        gpu["link"][when]["link_width"] = [width, width, width if when == AT_ONCE else _LANES]


@changes
def words_lost(document: Document, index: int, what: str, words: int) -> None:
    """A GPU that loses a few words on one way: OUT, IN or INSIDE."""
    data = next(each for each in document["gpus"][index]["data"] if each["what"] == what or what == OUT)
    data.update(what=what, wrong_words=words, first_word=70_254_592)


def never_started(document: Document) -> None:
    """CUDA did not start on any GPU."""
    for gpu in document["gpus"]:
        gpu.update(error=f"cuInit: 802 {_NOT_READY}", copies=[], data=[], memory={})
    document["peers"]["copies"] = []


def _attempts(machine: Machine) -> Attempts:
    done = []
    for attempt in range(machine.load.attempts(NAME)):
        found = document(machine, attempt)
        machine.load.apply(NAME, attempt, found)
        done.append(Attempt((_ran(machine, found), _by_others(machine, found, attempt))))
    return done


def _ran(machine: Machine, document: Document) -> ProgramRun:
    return ProgramRun(
        OWN,
        ("python3", "-I", "-S", "-"),
        stdout=wire(WIRE, document),
        exit_code=0,
        started_epoch_s=machine.epoch_s + BEGIN_S + BURN_S + 15,
        duration_s=document["seconds"] + 2.1,
    )


def document(machine: Machine, attempt: int = 0) -> Document:
    """Healthy copies of all the GPUs that the machine has."""
    nvml = machine.sections["nvml"]
    gpus = [gpu for gpu in nvml["gpus"] if "handle" not in gpu]
    board = boards.of(gpus)
    pairs = [(one["index"], other["index"]) for one in gpus for other in gpus if one is not other]
    peers = [_pair(machine.name, *pair, board, attempt) for pair in pairs]
    return (
        {"schema": SCHEMA, "driver": nvml["driver_version"], "cuda_driver_version": nvml["cuda_driver_version"]}
        | {"bytes": _OPTIONS.size, "kernel_bytes": _OPTIONS.kernel_size, "pattern_s": _OPTIONS.pattern_s}
        | {"both_ways": _OPTIONS.both_ways, "refused": "", "gpus": [_gpu(machine, gpu, board, attempt) for gpu in gpus]}
        | {"peers": {"pairs": _OPTIONS.peers, "copies": peers}, "seconds": 93.12}
    )


def _gpu(machine: Machine, gpu: Mapping[str, Any], board: Figures, attempt: int) -> Document:
    node, numa = machine.name, int(machine.pci(machine.gpu_address(gpu["index"]))["numa_node"])
    width, gen, noise = gpu["link_width"], gpu["link_gen_max"], board.noise.copies
    out, into, inside, with_all, _ = board.copies
    triad = board.triad or _OVER_ENGINE * inside
    copies = []
    for what, rate in ((OUT, out), (IN, into), (INSIDE, inside / 2)):
        most = rate if what == INSIDE else rate * width / _LANES
        copies.append(_copy(what, ALONE, near(most, noise, node, gpu["index"], what, attempt)))
    copies += [
        _copy(what, ALONE, near(share * triad, noise, node, gpu["index"], what, attempt))
        | {"bytes": _OPTIONS.kernel_size}
        for what, share in _KERNELS.items()
    ]
    both = 0.85 * sum(each["gb_per_s"] for each in copies[:2])
    copies.append(_copy(BOTH, ALONE, near(both, noise, node, gpu["index"], BOTH, attempt)))
    for copy in copies[:2]:
        at_once = near(with_all, noise, node, gpu["index"], copy["what"], AT_ONCE, attempt)
        copies.append(_copy(copy["what"], AT_ONCE, min(at_once, copy["gb_per_s"])))
    link = {"count": 118, "link_gen": [gen] * 3, "link_width": [width] * 3}
    told = {"confidential": 0, "virtualization": gpu["virtualization_mode"], "unread": {}, "replays": 0}
    data = [
        {"what": what, "when": when, "bytes": _size(what), "wrong_words": 0, "first_word": None}
        for what, when in ((IN, ALONE), (INSIDE, ALONE), *((each, ALONE) for each in _KERNELS), (IN, AT_ONCE))
    ]
    total = gpu["memory_total_bytes"]
    return (
        {"index": gpu["index"], "uuid": gpu["uuid"], "pci": gpu["bus_id"], "name": gpu["name"]}
        | {"memory_total_bytes": total, "error": ""}
        | {"place": {"cpus": board.cpus[numa], "numa_node": str(numa), "above": [], "error": ""}}
        | {"copies": copies, "data": data, "memory": _tested(total, triad)}
        | {"link": {ALONE: link, AT_ONCE: dict(link), **told}}
    )


def _tested(total: int, gb_per_s: float) -> Document:
    """All memory that the driver leaves, written and checked with every pattern."""
    size, passes = int(total * 0.98) >> 16 << 16, len(PASSES)
    took = {"passes": passes, "planned": passes, "seconds": round(2 * passes * size / gb_per_s / 1e9, 2)}
    return {"bytes": size, "total_bytes": total, **took, "wrong_words": 0, "bits": 0, "wrong": []}


def _size(what: str) -> int:
    return _OPTIONS.kernel_size if what in _KERNELS else _OPTIONS.size


def _copy(what: str, when: str, gb_per_s: float) -> Document:
    return {"what": what, "when": when, **_rates(gb_per_s), "copies": int(gb_per_s * 5.59), "seconds": 3.02}


def _rates(gb_per_s: float) -> Document:
    """The median, and the slowest and the fastest piece."""
    median = round(gb_per_s, 2)
    return {"gb_per_s": median, "lowest": round(median * 0.996, 2), "highest": round(median * 1.001, 2)}


def _alone(gpu: Mapping[str, Any], what: str) -> float:
    rate: float = next(each["gb_per_s"] for each in gpu["copies"] if (each["what"], each["when"]) == (what, ALONE))
    return rate


def _pair(node: str, source: int, target: int, board: Figures, attempt: int) -> Document:
    near_by = board.far_from == 0 or source // board.far_from == target // board.far_from
    rate = near(board.copies[4] if near_by else board.far_peer, 0.2, node, source, target, attempt)
    ways = {"from": source, "to": target, "begun": True, "error": "", "direct": True}
    return {**ways, "wrong_words": 0, "first_word": None, **_rates(rate), "copies": int(rate * 0.5), "seconds": 0.27}


def _by_others(machine: Machine, document: Document, attempt: int) -> ProgramRun:
    """nvbandwidth, which comes to the rates of our own copies."""
    told: Document = {"git_version": "v0.8", "version": "v0.8"}
    if document["peers"]["copies"]:
        told |= {
            "CUDA Runtime Version": 12040,
            "Driver Version": document["driver"],
            "GPU Device list": [
                f"{place}: {gpu['name']} ({gpu['pci'].lower().rpartition('.')[0]}): ({machine.name})"
                for place, gpu in enumerate(document["gpus"])
            ],
            "testcases": list(_cases(machine.name, document, attempt)),
        }
    else:
        where = "in expression cuInit(0) in int main(int, char**)() : nvbandwidth.cpp:240"
        told["error"] = f"[{_NOT_READY}] system not yet initialized {where}\n"
    return ProgramRun(
        OTHER,
        ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "/opt/nvbandwidth/nvbandwidth", "-j", "-t", *CASES),
        stdout=json.dumps({"nvbandwidth": told}, indent="\t", sort_keys=True) + "\n",
        exit_code=0 if "testcases" in told else 1,
        started_epoch_s=machine.epoch_s + BEGIN_S + BURN_S + 115,
        duration_s=41.7,
        plan=Plan(origin="the node"),
    )


def _cases(node: str, document: Document, attempt: int) -> Iterable[Document]:
    gpus = document["gpus"]
    for case, what, arrow in ((CASES[0], IN, "->"), (CASES[1], OUT, "<-")):
        row = [near(_alone(gpu, what) * 1.003, 0.1, node, case, gpu["index"], attempt) for gpu in gpus]
        yield _case(case, f"memcpy CE CPU(row) {arrow} GPU(column) bandwidth (GB/s)", [row])
    rates = {(pair["from"], pair["to"]): pair["gb_per_s"] for pair in document["peers"]["copies"]}
    matrix = [[rates.get((source["index"], target["index"])) for target in gpus] for source in gpus]
    yield _case(CASES[2], "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)", matrix)


def _case(name: str, about: str, matrix: Sequence[Sequence[float | None]]) -> Document:
    rows = [["N/A" if rate is None else f"{rate:.2f}" for rate in row] for row in matrix]
    total = round(sum(rate or 0.0 for row in matrix for rate in row), 2)
    about_it = {"name": name, "status": "Passed", "bandwidth_description": about}
    return {**about_it, "bandwidth_matrix": rows, "sum": total}
