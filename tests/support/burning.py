"""Burns for tests: the document of docs/reference/burn-document.md, what it becomes, and what a check says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.load import burn as recorded
from fleet.load import plan
from fleet.machine import Machine
from support import cases
from support.attempts import attempts

from nodegate.measure.burn import run
from nodegate.measure.burn.document import WIRE
from nodegate.records.program_run import Plan, ProgramRun

CHECK_FILE = Path(__file__).resolve().parents[2] / "checks" / "test_burn.py"
NODE = "gpu01"
RATES = {"bf16": 700.0, "fp32": 51.0, "fp64": 60.0}
SECONDS = {"bf16": 36.0, "fp32": 12.0, "fp64": 12.0}
LIMITS = """
  burn.node_spread_percent: {value: 5, unit: "%", source: test}
  burn.clock_share_percent: {value: 90, unit: "%", source: test}
  burn.temperature_margin_c: {value: 3, unit: °C, source: test}
  burn.memory_temperature_margin_c: {value: 5, unit: °C, source: test}
  gpu.memory_temperature_max_c: {value: 95, unit: °C, source: test}
  burn.slow_samples_percent: {value: 0.5, unit: "%", source: test, direction: at most}
  burn.slowed_s: {value: 1, unit: s, source: test, direction: at most}
  burn.power_percent: {value: 85, unit: "%", source: test}
  burn.power_own_kernels_percent: {value: 70, unit: "%", source: test}
  counters.ecc_corrected_per_h: {value: 1000, unit: per hour, source: test}
  burn.bf16_tflops: {value: 640, unit: TFLOPS, source: test, direction: at least, peak: 989}
  contract.event_reasons_percent: {value: 0, unit: "%", source: test}
  contract.event_reasons_allowed: {value: sw_power_cap, unit: "", source: test}
  contract.temperature_spread_c: {value: 5, unit: °C, source: test}
  contract.temperature_c: {value: 85, unit: °C, source: test}
  contract.burn_h: {value: 0.01, unit: h, source: test}
"""
Document = dict[str, Any]


def window(start_s, **values):
    """One second of a healthy GPU under load."""
    found: Document = {
        "start_s": start_s,
        "count": 5,
        "load": 5 if start_s >= 0 else 0,
        "sm_clock_mhz": [1700, 1755, 1980],
        "power_w": [640.0, 698.0, 703.0],
        "temperature_c": [58, 62, 64],
        "memory_temperature_c": [70, 71, 72],
        "utilization_percent": [100, 100, 100],
        "link_gen": [5, 5, 5],
        "link_width": [16, 16, 16],
        "ecc_corrected": [0, 0, 0],
        "ecc_uncorrected": [0, 0, 0],
        "event_reasons": 4,
        "reason_samples": {"4": 5},
    }
    return found | values


def document(machine, *, count=None):
    """A healthy burn of 60 s of the machine's GPUs, at rates without noise."""
    found = recorded.document(machine)
    found["phases"] = [{"dtype": dtype, "seconds": SECONDS[dtype], "matrix": 8192} for dtype in RATES]
    found["gpus"] = found["gpus"][:count]
    for gpu in found["gpus"]:
        phases = {phase["dtype"]: phase for phase in gpu["phases"]}
        rates = {dtype: rate * (1 + gpu["index"] / 1000) for dtype, rate in RATES.items()}
        gpu["phases"] = [phases[dtype] | _at(rate, SECONDS[dtype]) for dtype, rate in rates.items()]
        windows = [window(-1.0, reason_samples={"1": 5}), *(window(float(at)) for at in range(60))]
        gpu["samples"].update(count=305, windows=windows)
    return found


def _at(rate, seconds):
    pieces = {"tflops_windows": [rate], "windows_s": [seconds]}
    return {"iterations": 20_000, "seconds": seconds, "tflops": rate, **pieces}


def wire(found):
    """As the program prints it, after what a login says."""
    return f"Welcome to {NODE}\n{plan.wire(WIRE, found)}"


def ran(found):
    return ProgramRun(run.OWN, ("python3", "-"), stdout=wire(found), exit_code=0, duration_s=75.0)


def ran_by_others(name, mode="fp32", stderr=""):
    """A run of the program gpu_burn, from a recording."""
    text = (CHECK_FILE.parents[1] / "tests/tools/recordings/gpu_burn" / name).read_bytes().decode()
    return ProgramRun(run.OTHER, ("gpu_burn", "120"), stdout=text, stderr=stderr, exit_code=0, plan=Plan(mode=mode))


def burnt(machine, change=lambda found: None):
    """The burn of a machine's GPUs, with something changed."""
    found = document(machine)
    change(found)
    return run.parse(attempts([[ran(found)]]))


def every_window(found, gpu, **values):
    """Give a GPU these samples in each second under load."""
    for each in found["gpus"][gpu]["samples"]["windows"]:
        if each["start_s"] >= 0:
            each.update(values)


@dataclass(frozen=True)
class BurnCase(cases.DocumentCase):
    """One burn of one machine, and what one check must say of it, word for word."""

    limits: Mapping[str, object] = field(default_factory=dict)  # None takes a limit away


def judged(case):
    """What the check says."""
    tried = case.tried(document(Machine.hgx_h100(NODE)), ran)
    changes = [case.change, lambda found: None] if case.nodes > 1 else []
    of_fleet = [burnt(Machine.hgx_h100(), change).metrics for change in changes]
    peers, baseline = cases.beside(case.nodes, *of_fleet), cases.h100_with(LIMITS, case.limits)
    return case.said(burn=lambda: run.parse(tried), peers=peers, baseline=baseline)


def refused(found):
    """Nothing was started."""
    found["refused"] = "GPU 2 is in use by pid 4711 (python)"
