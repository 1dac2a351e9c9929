"""The burn of a made-up node: the document of docs/reference/burn-document.md, and what gpu_burn prints after it."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.load import boards
from fleet.load.boards import Figures
from fleet.load.plan import BEGIN_S, BURN_S, Attempts, near, wire
from fleet.machine import Machine
from nodegate.measure.burn.document import SCHEMA, VIOLATIONS, WIRE
from nodegate.measure.burn.run import MODES, OTHER, OWN, PHASES, other_seconds
from nodegate.node_side.load.load import Phase, chosen
from nodegate.records.program_run import Attempt, Plan, ProgramRun

Document = dict[str, Any]
NAME = "burn"
MATRIX = 8192
_WINDOW_S = 50.0  # a burn of ten minutes, merged until few windows are left
_SAMPLES = 250  # of a window
_FP8, _FP4 = 1.6, 2.9  # times the rate of bf16; fp8 without fast accumulation
_UNTOLD = {"why": "not supported", "detail": "NVML 3: Not Supported"}
_REPORTS = 4  # of gpu_burn, each with 280 products more


def recorded(machines: Sequence[Machine]) -> Mapping[str, Attempts]:
    """What each node's burns left."""
    return {machine.name: _attempts(machine) for machine in machines if NAME not in machine.load.refused}


def slowed(
    document: Document, index: int, share: float, *, reasons: Sequence[int], clock_mhz: float, heat_c: float = 0.0
) -> None:
    """A GPU has this share of its rates, its clock is held down for these reasons; hotter by `heat_c` °C."""
    gpu = document["gpus"][index]
    for phase in gpu["phases"]:
        phase["tflops"] = round(phase["tflops"] * share, 3)
        phase["tflops_windows"] = [round(each * share, 3) for each in phase["tflops_windows"]]
        phase["iterations"] = int(phase["iterations"] * share)
    for window in windows_under_load(gpu):
        window["sm_clock_mhz"] = [clock_mhz - 30, clock_mhz, clock_mhz + 15]
        window["reason_samples"] = {str(bit): window["count"] for bit in reasons}
        window["event_reasons"] = sum(reasons)
        window["temperature_c"] = [round(each + heat_c) for each in window["temperature_c"]]


def counting(document: Document, index: int, counter: str, per_window: int) -> None:
    """A counter of a GPU that grows in each window under load: "ecc_corrected"."""
    for number, window in enumerate(windows_under_load(document["gpus"][index])):
        window[counter] = [number * per_window, number * per_window, (number + 1) * per_window]


def windows_under_load(gpu: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The windows of a GPU's samples in which it computed."""
    return [window for window in gpu["samples"]["windows"] if window["start_s"] >= 0]


def never_started(document: Document, error: str) -> None:
    """CUDA did not start on any GPU."""
    for gpu in document["gpus"]:
        gpu.update(error=error, started_s=None, phases=[], samples={"windows": [], "error": "the burn never began"})


def _attempts(machine: Machine) -> Attempts:
    done = []
    for attempt in range(machine.load.attempts(NAME)):
        found = document(machine, attempt)
        machine.load.apply(NAME, attempt, found)
        seconds = BURN_S if attempt == 0 else 120.0
        own = ProgramRun(
            OWN,
            ("python3", "-I", "-S", "-"),
            stdout=wire(WIRE, found),
            exit_code=0,
            started_epoch_s=machine.epoch_s + BEGIN_S,
            duration_s=seconds + 17.4,
        )
        started = any(gpu["phases"] for gpu in found["gpus"])
        done.append(Attempt((own, *(_others(machine, found) if attempt == 0 and started else ()))))
    return done


def document(machine: Machine, attempt: int = 0) -> Document:
    """A healthy burn of all the GPUs that the machine has."""
    nvml = machine.sections["nvml"]
    asked = [Phase(dtype, BURN_S * share, MATRIX) for dtype, share in PHASES]
    driver = {"driver": nvml["driver_version"], "cuda_driver_version": nvml["cuda_driver_version"], "path": "cublas"}
    library = {"library": "/usr/local/cuda/lib64/libcublas.so.12", "library_version": 120401, "library_refused": ""}
    gpus = [_gpu(machine.name, gpu, attempt, asked) for gpu in nvml["gpus"] if "handle" not in gpu]
    phases = [each._asdict() for each in asked]
    return {"schema": SCHEMA, **driver, **library, "phases": phases, "gpus": gpus, "refused": ""}


def _told(gpu: Mapping[str, Any], key: str, otherwise: int) -> int:
    """What NVML says, unless a demo took its answer away."""
    return gpu[key] if isinstance(gpu[key], int) else otherwise


def _gpu(node: str, gpu: Mapping[str, Any], attempt: int, asked: Sequence[Phase]) -> Document:
    board, memory = boards.of([gpu]), _told(gpu, "memory_total_bytes", 48 << 30)
    chip, noise = (node, gpu["index"]), board.noise.burn
    capability = tuple(int(each) for each in board.capability.split("."))
    phases, left_out = chosen(asked, capability, str(gpu["name"]), own_kernels=False)
    bf16, fp32, fp64 = board.tflops
    rates = {"bf16": bf16, "fp32": fp32, "fp64": fp64, "fp8": _FP8 * bf16, "fp4": _FP4 * bf16}
    windows = [_idle(gpu, board), *(_window(gpu, board, chip, at) for at in range(int(BURN_S / _WINDOW_S)))]
    unread = {} if board.memory_temperature_c else {"memory_temperature_c": _UNTOLD}
    violations = dict.fromkeys(VIOLATIONS, 0)
    samples = {"interval_s": 0.2, "count": len(windows) * _SAMPLES, "error": "", "windows": windows}
    done = [
        _phase(dtype, seconds, near(rates[dtype], noise, *chip, dtype, attempt), str(gpu["name"]))
        for dtype, seconds, _ in phases
    ]
    return (
        {"index": gpu["index"], "uuid": gpu["uuid"], "pci": gpu["bus_id"], "name": gpu["name"]}
        | {"compute_capability": board.capability, "multiprocessors": board.multiprocessors}
        | {"memory_total_bytes": memory, "memory_used_by_burn_bytes": memory * 9 // 10}
        | {"path": "cublas", "started_s": 8.21, "error": "", "phases": done, "left_out": left_out}
        | {"samples": {**samples, "violations_ns": violations, "unread": unread}}
    )


def _phase(dtype: str, seconds: float, tflops: float, model: str) -> Document:
    products, rate, last_s = tflops * 1e12 / (2 * MATRIX**3), round(tflops, 3), round(seconds - 0.2, 1)
    return (
        {"dtype": dtype, "matrix": MATRIX, "iterations": int(products * seconds), "seconds": last_s, "tflops": rate}
        | {"tflops_windows": [round(tflops * 0.96, 3), rate], "windows_s": [2.5, last_s], "warm_up_windows": 1}
        | {"mismatches": 0, "first_mismatch": None, "checksum": f"{zlib.crc32(f'{model} {dtype}'.encode()):08x}"}
        | {"reference_errors": 0, "reference_worst": 0.0011}
    )


def _window(gpu: Mapping[str, Any], board: Figures, chip: tuple[object, ...], number: int) -> Document:
    """A part of the load; the first degrees and megahertz are those of a cold chip."""
    cold = max(0, 3 - number)
    clock = round(near(board.clock_mhz, 0.6, *chip)) + 15 * cold
    heat = round(near(board.temperature_c, 4.0, *chip)) - 4 * cold
    watts = [round(board.power_w + more, 1) for more in (-31.0, 0.0, 5.2)]
    found: Document = {"start_s": number * _WINDOW_S, "count": _SAMPLES, "load": _SAMPLES}
    found |= {"sm_clock_mhz": [clock - 60, clock, clock + 45], "power_w": watts}
    found |= {"temperature_c": [heat - 1, heat, heat + 2], "utilization_percent": [100, 100, 100]}
    found |= {**_links_and_errors(gpu), "event_reasons": 4, "reason_samples": {"4": _SAMPLES - 40 * cold}}
    if board.memory_temperature_c is not None:
        memory = round(near(board.memory_temperature_c, 3.0, *chip)) - 5 * cold
        found["memory_temperature_c"] = [memory - 1, memory, memory + 1]
    return found


def _idle(gpu: Mapping[str, Any], board: Figures) -> Document:
    """The last second before the load."""
    found: Document = {
        "start_s": -1.0,
        "count": 5,
        "load": 0,
        "sm_clock_mhz": [210, 1980, 1980],
        "power_w": [71.2, 118.0, 121.4],
    }
    found |= {"temperature_c": [_told(gpu, "temperature_c", 34)] * 3, "utilization_percent": [0, 0, 0]}
    found |= {**_links_and_errors(gpu), "event_reasons": 1, "reason_samples": {"1": 5}}
    if board.memory_temperature_c is not None:
        found["memory_temperature_c"] = [_told(gpu, "memory_temperature_c", 42)] * 3
    return found


def _links_and_errors(gpu: Mapping[str, Any]) -> Document:
    link = {"link_gen": [_told(gpu, "link_gen_max", 4)] * 3, "link_width": [_told(gpu, "link_width", 16)] * 3}
    return {**link, "ecc_corrected": [0, 0, 0], "ecc_uncorrected": [0, 0, 0]}


def _others(machine: Machine, document: Document) -> list[ProgramRun]:
    seconds = other_seconds(BURN_S)
    done = []
    for number, (mode, options) in enumerate(MODES.items()):
        rates = [_other_rate(machine, gpu, mode) for gpu in document["gpus"]]
        done.append(
            ProgramRun(
                OTHER,
                ("sh", "-c", "...", "sh", "/opt/gpu-burn/gpu_burn", *options, f"{seconds:.0f}"),
                stdout=_printed(document["gpus"], rates, seconds, tensor="tensor" in mode),
                exit_code=0,
                started_epoch_s=machine.epoch_s + BEGIN_S + BURN_S + 20 + number * seconds,
                duration_s=seconds + 6.3,
                plan=Plan(mode=mode, origin="the node"),
            )
        )
    return done


def _other_rate(machine: Machine, gpu: Mapping[str, Any], mode: str) -> float:
    """GFLOPS: as far below a good board's as in our own burn."""
    listed = machine.sections["nvml"]["gpus"]
    board = boards.of([each for each in listed if each["index"] == gpu["index"]])
    bf16, fp32, _ = board.tflops
    tensor, plain = board.gpu_burn or (0.54 * bf16, fp32)
    share = gpu["phases"][0]["tflops"] / bf16
    return near((tensor if "tensor" in mode else plain) * share, 0.3, machine.name, gpu["index"], mode) * 1000


def _printed(gpus: Sequence[Mapping[str, Any]], rates: Sequence[float], seconds: float, *, tensor: bool) -> str:
    """The output of gpu_burn, with as many reports as evidence keeps of a short run."""
    lines = ["Using compare file: compare.fatbin", f"Burning for {seconds:.0f} seconds."]
    lines += [f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})" for gpu in gpus]
    for report in range(1, _REPORTS + 1):
        work = " - ".join(f"{280 * report} ({rate * (0.61 if report == 1 else 1):.0f} Gflop/s) " for rate in rates)
        errors, heat = " - ".join("0" for _ in gpus), " - ".join("64 C" for _ in gpus)
        lines.append(f"{100 * report / _REPORTS:.1f}%  proc'd: {work}  errors: {errors}   temps: {heat} ")
    lines.append("Killing processes with SIGTERM (soft kill)")
    for gpu in gpus:
        total = gpu["memory_total_bytes"] >> 20
        kind = "FLOATS, using Tensor Cores" if tensor else "FLOATS"
        lines.append(
            f"Initialized device {gpu['index']} with {total} MB of memory ({total - 650} MB available, using "
            f"{(total - 650) * 9 // 10} MB of it), using {kind}"
        )
    lines += ["done", "", f"Tested {len(gpus)} GPUs:", *(f"\tGPU {gpu['index']}: OK" for gpu in gpus)]
    return "\n".join(lines) + "\n"
