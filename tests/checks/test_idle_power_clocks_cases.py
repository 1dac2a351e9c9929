"""What the checks of processes, power, heat and clocks say, word for word, and what they must not call a fault."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.cases import assert_case
from support.judging import Case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def process(machine: Machine, index: int, name: str, kind: str = "compute", memory: object = 21_000 << 20) -> None:
    entry = {"pid": 4711, "kind": kind, "memory_bytes": memory, "name": name}
    machine.sections["nvml"]["gpus"][index]["processes"].append(entry)


IDLE = (
    Case("idle", "idle.processes", PASS),
    Case("a process is left", "idle.processes", FAIL, lambda machine: process(machine, 2, "/usr/bin/python3")),
    Case(
        "a process without a name and of unknown memory",
        "idle.processes",
        FAIL,
        lambda machine: process(machine, 2, "", memory=UNSUPPORTED),
    ),
    Case(
        "a desktop",
        "idle.processes",
        WARN,
        lambda machine: process(machine, 2, "/usr/lib/xorg/Xorg", "graphics", 40 << 20),
    ),
    Case(
        "the daemons of the node",
        "idle.processes",
        PASS,
        lambda machine: (
            process(machine, 0, "/usr/bin/nvidia-persistenced"),
            process(machine, 1, "nvidia-persiste"),
            process(machine, 2, "/usr/bin/nv-hostengine"),
            process(machine, 3, "nvidia-cuda-mps-server"),
            process(machine, 4, "/usr/bin/nvidia-imex"),
            process(machine, 5, "dcgm-exporter"),
        ),
    ),
    Case("a client of MPS is a job", "idle.processes", FAIL, lambda machine: process(machine, 4, "python3", "mps")),
    Case(
        "a load of DCGM is no daemon", "idle.processes", FAIL, lambda machine: process(machine, 4, "dcgmproftester12")
    ),
    Case(
        "the processes cannot be listed",
        "idle.processes",
        ERROR,
        lambda machine: machine.set_gpu(2, "processes", FAILED),
    ),
    Case("free", "idle.memory", PASS),
    Case(
        "memory in use with no process in sight",
        "idle.memory",
        FAIL,
        lambda machine: machine.set_gpu(5, "memory_used_bytes", 30 << 30),
    ),
    Case(
        "what MIG keeps for its instances",
        "idle.memory",
        PASS,
        lambda machine: every(machine, "memory_used_bytes", 59 << 20),
    ),
    Case(
        "a desktop's memory belongs to its processes",
        "idle.memory",
        PASS,
        lambda machine: (
            process(machine, 2, "/usr/bin/gnome-shell", "graphics", 173 << 20),
            machine.set_gpu(2, "memory_used_bytes", 211 << 20),
        ),
    ),
    Case(
        "memory in use is not told",
        "idle.memory",
        ERROR,
        lambda machine: every(machine, "memory_used_bytes", UNSUPPORTED),
    ),
)

POWER = (
    Case("full", "power.limit", PASS),
    Case("lowered", "power.limit", FAIL, lambda machine: machine.set_gpu(7, "power_limit_mw", 500_000)),
    Case(
        "the board's own default is below the platform's",
        "power.limit",
        FAIL,
        lambda machine: (
            machine.set_gpu(7, "power_limit_mw", 650_000),
            machine.set_gpu(7, "power_limit_default_mw", 650_000),
        ),
    ),
    Case(
        "lowered on a platform without a limit of its own",
        "power.limit",
        FAIL,
        lambda machine: machine.set_gpu(7, "power_limit_mw", 500_000),
        limits={"gpu.power_limit_w": None},
    ),
    Case(
        "lowered on purpose by the site",
        "power.limit",
        PASS,
        lambda machine: every(machine, "power_limit_mw", 600_000),
        limits={"gpu.power_limit_w": 600},
    ),
    Case(
        "a card that tells no power",
        "power.limit",
        SKIP,
        lambda machine: every(machine, "power_limit_mw", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the limit could not be read",
        "power.limit",
        ERROR,
        lambda machine: machine.set_gpu(7, "power_limit_mw", FAILED),
    ),
    Case("in force as set", "power.enforced", PASS),
    Case(
        "held down from outside",
        "power.enforced",
        FAIL,
        lambda machine: machine.set_gpu(1, "power_limit_enforced_mw", 350_000),
    ),
    Case("at rest", "power.draw", PASS),
    Case(
        "the sensor reads nothing",
        "power.draw",
        WARN,
        lambda machine: machine.set_gpu(1, "power_mw", 0),
        limits={"gpu.power_draw_min_w": 65},
    ),
    Case("the sensor reads too much", "power.draw", WARN, lambda machine: machine.set_gpu(1, "power_mw", 1_900_000)),
    Case(
        "the sensor cannot be read",
        "power.draw",
        ERROR,
        lambda machine: machine.set_gpu(1, "power_mw", {"why": "failed", "detail": "NVML 999"}),
    ),
    Case(
        "healthy: under load, at its limit and a little over it",
        "power.draw",
        PASS,
        lambda machine: machine.set_gpu(1, "power_mw", 731_000),
    ),
    Case(
        "healthy: a board without a sensor",
        "power.draw",
        SKIP,
        lambda machine: [machine.set_gpu(index, "power_mw", UNSUPPORTED) for index in range(8)],
    ),
    Case("cool", "power.temperature", PASS),
    Case("near the slowdown", "power.temperature", WARN, lambda machine: machine.set_gpu(4, "temperature_margin_c", 3)),
    Case(
        "at the limit, as a hot GPU under full load is held",
        "power.temperature",
        WARN,
        lambda machine: machine.set_gpu(4, "temperature_margin_c", 0),
    ),
    Case("past the limit", "power.temperature", FAIL, lambda machine: machine.set_gpu(4, "temperature_margin_c", -3)),
    Case(
        "a board before Hopper says its slowdown temperature",
        "power.temperature",
        PASS,
        lambda machine: (
            every(machine, "temperature_margin_c", UNSUPPORTED),
            every(machine, "temperature_slowdown_c", 89),
            every(machine, "temperature_c", 33),
        ),
    ),
    Case(
        "a card that tells neither",
        "power.temperature",
        SKIP,
        lambda machine: every(machine, "temperature_margin_c", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the temperature could not be read",
        "power.temperature",
        ERROR,
        lambda machine: (
            machine.set_gpu(4, "temperature_margin_c", UNSUPPORTED),
            machine.set_gpu(4, "temperature_slowdown_c", 89),
            machine.set_gpu(4, "temperature_c", FAILED),
        ),
    ),
)

CLOCKS = (
    Case("as the model's", "clocks.sm_max", PASS),
    Case("below the model's", "clocks.sm_max", FAIL, lambda machine: machine.set_gpu(3, "sm_clock_max_mhz", 1755)),
    Case(
        "an idle GPU runs low, which is no fault",
        "clocks.sm_max",
        PASS,
        lambda machine: every(machine, "sm_clock_mhz", 210),
    ),
    Case("not told", "clocks.sm_max", ERROR, lambda machine: machine.set_gpu(3, "sm_clock_max_mhz", UNSUPPORTED)),
    Case("a platform without this limit", "clocks.sm_max", NOT_JUDGED, limits={"gpu.sm_clock_max_mhz": None}),
    Case("as the model's", "clocks.memory_max", PASS),
    Case(
        "below the model's", "clocks.memory_max", FAIL, lambda machine: machine.set_gpu(3, "memory_clock_max_mhz", 1593)
    ),
    Case("at the default", "clocks.application", PASS),
    Case(
        "left low by a measurement",
        "clocks.application",
        FAIL,
        lambda machine: machine.set_gpu(3, "sm_clock_app_mhz", 1200),
    ),
    Case(
        "the board's default is itself below its highest clock (A100-40GB)",
        "clocks.application",
        PASS,
        lambda machine: (
            every(machine, "sm_clock_app_mhz", 1095),
            every(machine, "sm_clock_app_default_mhz", 1095),
        ),
    ),
    Case(
        "driver 595 dropped these settings",
        "clocks.application",
        SKIP,
        lambda machine: [
            every(machine, key, {"why": "failed", "detail": "NVML 26: deprecated", "nvml": 26})
            for key in ("sm_clock_app_mhz", "memory_clock_app_mhz")
        ],
    ),
    Case(
        "driver 595 dropped these settings, told as not supported",
        "clocks.application",
        SKIP,
        lambda machine: [every(machine, key, UNSUPPORTED) for key in ("sm_clock_app_mhz", "memory_clock_app_mhz")],
    ),
    Case(
        "the memory's setting is not reported by one GPU of eight",
        "clocks.application",
        ERROR,
        lambda machine: machine.set_gpu(3, "memory_clock_app_mhz", UNSUPPORTED),
    ),
    Case(
        "the setting could not be read",
        "clocks.application",
        ERROR,
        lambda machine: machine.set_gpu(3, "sm_clock_app_mhz", FAILED),
    ),
)

REASONS = (
    Case("idle", "clocks.event_reasons", PASS),
    Case(
        "under full load the power cap holds it, which is no fault",
        "clocks.event_reasons",
        PASS,
        lambda machine: every(machine, "event_reasons", 0x4),
    ),
    Case(
        "application clocks are set, which is no fault here",
        "clocks.event_reasons",
        PASS,
        lambda machine: every(machine, "event_reasons", 0x2),
    ),
    Case(
        "the power supply brakes",
        "clocks.event_reasons",
        FAIL,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x88),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "heat, by the hardware",
        "clocks.event_reasons",
        FAIL,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x48),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "heat, by the driver, at delivery",
        "clocks.event_reasons",
        FAIL,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x24),
    ),
    Case(
        "heat, by the driver, before a job",
        "clocks.event_reasons",
        WARN,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x24),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "a reason that a later driver has",
        "clocks.event_reasons",
        WARN,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x800),
    ),
    Case(
        "the board's own limit",
        "clocks.event_reasons",
        WARN,
        lambda machine: machine.set_gpu(6, "event_reasons", 0x200),
    ),
    Case(
        "the voltage limit for reliability",
        "clocks.event_reasons",
        PASS,
        lambda machine: every(machine, "event_reasons", 0x400),
    ),
    Case(
        "not told",
        "clocks.event_reasons",
        SKIP,
        lambda machine: every(machine, "event_reasons", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "could not be read", "clocks.event_reasons", ERROR, lambda machine: machine.set_gpu(6, "event_reasons", FAILED)
    ),
    Case("never slowed but by power", "clocks.violations", PASS),
    Case(
        "was slowed by heat",
        "clocks.violations",
        WARN,
        lambda machine: machine.set_gpu(6, "violation_ns.thermal", 12_500_000_000),
    ),
    Case(
        "the counters are not told",
        "clocks.violations",
        SKIP,
        lambda machine: every(machine, "violation_ns", UNSUPPORTED),
    ),
)


@pytest.mark.parametrize("case", [*IDLE, *POWER, *CLOCKS, *REASONS], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
