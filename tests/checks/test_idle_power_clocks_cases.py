"""What the checks of processes, power, heat and clocks say, word for word, and what they must not call a fault."""

from __future__ import annotations

import pytest
from fleet.machine import Machine
from support.judging import Case, assert_case

from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
UNSUPPORTED = {"why": "not supported", "detail": ""}
FAILED = {"why": "failed", "detail": "NVML 999"}
_SMI = "hgx-h100-8.yaml {}: nvidia-smi -q -x of this board, driver 580.105.08 (NVIDIA/k8s-test-infra qx-h100.xml)"
_END = "find its job (ps -fp PID) and end it before the node takes work"
_POWER = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"
_SEE = "see the evidence file for what the node answered"


def every(machine: Machine, path: str, value: object) -> None:
    for index in range(8):
        machine.set_gpu(index, path, value)


def process(machine: Machine, index: int, name: str, kind: str = "compute", memory: object = 21_000 << 20) -> None:
    entry = {"pid": 4711, "kind": kind, "memory_bytes": memory, "name": name}
    machine.sections["nvml"]["gpus"][index]["processes"].append(entry)


IDLE = (
    Case(
        "idle",
        "idle.processes",
        PASS,
        "{gpus}: no job process",
    ),
    Case(
        "a process is left",
        "idle.processes",
        FAIL,
        f"{{gpu2}}: compute process 4711 (/usr/bin/python3) is running, 21000 MiB - {_END}",
        lambda machine: process(machine, 2, "/usr/bin/python3"),
    ),
    Case(
        "a process without a name and of unknown memory",
        "idle.processes",
        FAIL,
        f"{{gpu2}}: compute process 4711 (name unknown) is running, memory unknown - {_END}",
        lambda machine: process(machine, 2, "", memory=UNSUPPORTED),
    ),
    Case(
        "a desktop",
        "idle.processes",
        WARN,
        f"{{gpu2}}: graphics process 4711 (/usr/lib/xorg/Xorg) is running, 40 MiB - {_END}",
        lambda machine: process(machine, 2, "/usr/lib/xorg/Xorg", "graphics", 40 << 20),
    ),
    Case(
        "the daemons of the node",
        "idle.processes",
        PASS,
        "{gpus}: no job process",
        lambda machine: (
            process(machine, 0, "/usr/bin/nvidia-persistenced"),
            process(machine, 1, "nvidia-persiste"),
            process(machine, 2, "/usr/bin/nv-hostengine"),
            process(machine, 3, "nvidia-cuda-mps-server"),
            process(machine, 4, "/usr/bin/nvidia-imex"),
            process(machine, 5, "dcgm-exporter"),
        ),
    ),
    Case(
        "a client of MPS is a job",
        "idle.processes",
        FAIL,
        f"{{gpu4}}: mps process 4711 (python3) is running, 21000 MiB - {_END}",
        lambda machine: process(machine, 4, "python3", "mps"),
    ),
    Case(
        "a load of DCGM is no daemon",
        "idle.processes",
        FAIL,
        f"{{gpu4}}: compute process 4711 (dcgmproftester12) is running, 21000 MiB - {_END}",
        lambda machine: process(machine, 4, "dcgmproftester12"),
    ),
    Case(
        "the processes cannot be listed",
        "idle.processes",
        ERROR,
        f"{{gpu2}}: could not read its list of processes: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(2, "processes", FAILED),
    ),
    Case(
        "free",
        "idle.memory",
        PASS,
        "{gpus}: memory in use 1 MiB",
    ),
    Case(
        "memory in use with no process in sight",
        "idle.memory",
        FAIL,
        "{gpu5}: memory in use 30720 MiB, expected at most 128 MiB (common.yaml gpu.idle_memory_mib: choice: idle "
        "GPUs were seen with 59 MiB (H100 with MIG, driver 590) and 116 MiB (RTX 3060, driver 570)) - "
        "end the processes that hold it; if there are none, reset the GPU",
        lambda machine: machine.set_gpu(5, "memory_used_bytes", 30 << 30),
    ),
    Case(
        "what MIG keeps for its instances",
        "idle.memory",
        PASS,
        "{gpus}: memory in use 59 MiB",
        lambda machine: every(machine, "memory_used_bytes", 59 << 20),
    ),
    Case(
        "a desktop's memory belongs to its processes",
        "idle.memory",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: memory in use 1 MiB",
        lambda machine: (
            process(machine, 2, "/usr/bin/gnome-shell", "graphics", 173 << 20),
            machine.set_gpu(2, "memory_used_bytes", 211 << 20),
        ),
    ),
    Case(
        "memory in use is not told",
        "idle.memory",
        ERROR,
        f"{{gpu0}}: could not read memory in use: not supported - {_SEE} (and 7 more)",
        lambda machine: every(machine, "memory_used_bytes", UNSUPPORTED),
    ),
)

POWER = (
    Case(
        "full",
        "power.limit",
        PASS,
        "{gpus}: power limit 700 W",
    ),
    Case(
        "lowered",
        "power.limit",
        FAIL,
        f"{{gpu7}}: power limit 500 W, expected at least 700 W ({_SMI.format('gpu.power_limit_w')}) - run nvidia-smi "
        "-i 7 -pl with the limit that is right here, and find who lowered it",
        lambda machine: machine.set_gpu(7, "power_limit_mw", 500_000),
    ),
    Case(
        "the board's own default is below the platform's",
        "power.limit",
        FAIL,
        f"{{gpu7}}: power limit 650 W, expected at least 700 W ({_SMI.format('gpu.power_limit_w')}) - run nvidia-smi "
        "-i 7 -pl with the limit that is right here, and find who lowered it",
        lambda machine: (
            machine.set_gpu(7, "power_limit_mw", 650_000),
            machine.set_gpu(7, "power_limit_default_mw", 650_000),
        ),
    ),
    Case(
        "lowered on a platform without a limit of its own",
        "power.limit",
        FAIL,
        "{gpu7}: power limit 500 W, expected at least 700 W (the board's own default) - run nvidia-smi -i 7 -pl with "
        "the limit that is right here, and find who lowered it",
        lambda machine: machine.set_gpu(7, "power_limit_mw", 500_000),
        limits={"gpu.power_limit_w": None},
    ),
    Case(
        "lowered on purpose by the site",
        "power.limit",
        PASS,
        "{gpus}: power limit 600 W",
        lambda machine: every(machine, "power_limit_mw", 600_000),
        limits={"gpu.power_limit_w": 600},
    ),
    Case(
        "a card that tells no power",
        "power.limit",
        SKIP,
        "{gpus}: does not report power limit (not supported)",
        lambda machine: every(machine, "power_limit_mw", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the limit could not be read",
        "power.limit",
        ERROR,
        f"{{gpu7}}: could not read power limit: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(7, "power_limit_mw", FAILED),
    ),
    Case(
        "in force as set",
        "power.enforced",
        PASS,
        "{gpus}: power limit in force 700 W",
    ),
    Case(
        "held down from outside",
        "power.enforced",
        FAIL,
        "{gpu1}: power limit in force 350 W, expected at least 700 W (the limit that is set) - check power supplies, "
        "power cables and the BMC's power cap",
        lambda machine: machine.set_gpu(1, "power_limit_enforced_mw", 350_000),
    ),
    Case(
        "at rest",
        "power.draw",
        PASS,
        "{gpu0}: power draw 72 W",
    ),
    Case(
        "the sensor reads nothing",
        "power.draw",
        WARN,
        "{gpu1}: power draw 0 W, expected at least 65 W (the site's own) - read it again with nvidia-smi -q -d POWER; "
        "if it stays, power-cycle the node, then call the vendor",
        lambda machine: machine.set_gpu(1, "power_mw", 0),
        limits={"gpu.power_draw_min_w": 65},
    ),
    Case(
        "the sensor reads too much",
        "power.draw",
        WARN,
        "{gpu1}: power draw 1900 W, expected at most 1050 W (150 % of the board's highest limit; common.yaml "
        "gpu.power_draw_max_percent: choice: the draw of a second stays at the limit, short peaks go over it) - read "
        "it again with nvidia-smi -q -d POWER; if it stays, power-cycle the node, then call the vendor",
        lambda machine: machine.set_gpu(1, "power_mw", 1_900_000),
    ),
    Case(
        "the sensor cannot be read",
        "power.draw",
        ERROR,
        "{gpu1}: could not read power draw: failed: NVML 999 - see the evidence file for what the node answered",
        lambda machine: machine.set_gpu(1, "power_mw", {"why": "failed", "detail": "NVML 999"}),
    ),
    Case(
        "healthy: under load, at its limit and a little over it",
        "power.draw",
        PASS,
        "{gpu0}: power draw 72 W",
        lambda machine: machine.set_gpu(1, "power_mw", 731_000),
    ),
    Case(
        "healthy: a board without a sensor",
        "power.draw",
        SKIP,
        "{gpus}: does not report power draw (not supported)",
        lambda machine: [machine.set_gpu(index, "power_mw", UNSUPPORTED) for index in range(8)],
    ),
    Case("cool", "power.temperature", PASS, "2 alike: GPU 0, GPU 4: margin to slowdown 53 °C"),
    Case(
        "near the slowdown",
        "power.temperature",
        WARN,
        "{gpu4}: margin to slowdown 3 °C, expected at least 5 °C (common.yaml "
        "gpu.temperature_margin_min_c: choice: the slowdown is at a T.Limit of -2 on H100 and L40S) - "
        "check fans, airflow or coolant, and the seat of the heat sink; compare with the same slot of "
        "other nodes",
        lambda machine: machine.set_gpu(4, "temperature_margin_c", 3),
    ),
    Case(
        "at the limit, as a hot GPU under full load is held",
        "power.temperature",
        WARN,
        "{gpu4}: margin to slowdown 0 °C, expected at least 5 °C (common.yaml "
        "gpu.temperature_margin_min_c: choice: the slowdown is at a T.Limit of -2 on H100 and L40S) - "
        "check fans, airflow or coolant, and the seat of the heat sink; compare with the same slot of "
        "other nodes",
        lambda machine: machine.set_gpu(4, "temperature_margin_c", 0),
    ),
    Case(
        "past the limit",
        "power.temperature",
        FAIL,
        "{gpu4}: margin to slowdown -3 °C, expected at least 5 °C (common.yaml "
        "gpu.temperature_margin_min_c: choice: the slowdown is at a T.Limit of -2 on H100 and L40S); 3 "
        "°C above the slowdown limit - check fans, airflow or coolant, and the seat of the heat sink; "
        "compare with the same slot of other nodes",
        lambda machine: machine.set_gpu(4, "temperature_margin_c", -3),
    ),
    Case(
        "a board before Hopper says its slowdown temperature",
        "power.temperature",
        PASS,
        "{gpus}: margin to slowdown 56 °C",
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
        "{gpus}: does not report margin to slowdown (not supported: NVML 3: Not Supported)",
        lambda machine: every(machine, "temperature_margin_c", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "the temperature could not be read",
        "power.temperature",
        ERROR,
        f"{{gpu4}}: could not read margin to slowdown: failed: NVML 999 - {_SEE}",
        lambda machine: (
            machine.set_gpu(4, "temperature_margin_c", UNSUPPORTED),
            machine.set_gpu(4, "temperature_slowdown_c", 89),
            machine.set_gpu(4, "temperature_c", FAILED),
        ),
    ),
)

CLOCKS = (
    Case(
        "as the model's",
        "clocks.sm_max",
        PASS,
        "{gpus}: highest SM clock 1980 MHz",
    ),
    Case(
        "below the model's",
        "clocks.sm_max",
        FAIL,
        f"{{gpu3}}: highest SM clock 1755 MHz, expected at least 1980 MHz ({_SMI.format('gpu.sm_clock_max_mhz')}) - "
        "compare the VBIOS with a good node's; run nvidia-smi -rgc",
        lambda machine: machine.set_gpu(3, "sm_clock_max_mhz", 1755),
    ),
    Case(
        "an idle GPU runs low, which is no fault",
        "clocks.sm_max",
        PASS,
        "{gpus}: highest SM clock 1980 MHz",
        lambda machine: every(machine, "sm_clock_mhz", 210),
    ),
    Case(
        "not told",
        "clocks.sm_max",
        ERROR,
        f"{{gpu3}}: could not read highest SM clock: not supported - {_SEE}",
        lambda machine: machine.set_gpu(3, "sm_clock_max_mhz", UNSUPPORTED),
    ),
    Case(
        "a platform without this limit",
        "clocks.sm_max",
        NOT_JUDGED,
        "node: no limit gpu.sm_clock_max_mhz for platform hgx-h100-8",
        limits={"gpu.sm_clock_max_mhz": None},
    ),
    Case(
        "as the model's",
        "clocks.memory_max",
        PASS,
        "{gpus}: highest memory clock 2619 MHz",
    ),
    Case(
        "below the model's",
        "clocks.memory_max",
        FAIL,
        "{gpu3}: highest memory clock 1593 MHz, expected at least 2619 MHz ("
        f"{_SMI.format('gpu.memory_clock_max_mhz')}) - compare the VBIOS with a good node's; run nvidia-smi -rmc",
        lambda machine: machine.set_gpu(3, "memory_clock_max_mhz", 1593),
    ),
    Case(
        "at the default",
        "clocks.application",
        PASS,
        "{gpus}: SM application clock 1980 MHz",
    ),
    Case(
        "left low by a measurement",
        "clocks.application",
        FAIL,
        "{gpu3}: SM application clock 1200 MHz, expected at least 1980 MHz (the board's own default) - run nvidia-smi "
        "-rac",
        lambda machine: machine.set_gpu(3, "sm_clock_app_mhz", 1200),
    ),
    Case(
        "the board's default is itself below its highest clock (A100-40GB)",
        "clocks.application",
        PASS,
        "{gpus}: SM application clock 1095 MHz",
        lambda machine: (
            every(machine, "sm_clock_app_mhz", 1095),
            every(machine, "sm_clock_app_default_mhz", 1095),
        ),
    ),
    Case(
        "driver 595 dropped these settings",
        "clocks.application",
        SKIP,
        "{gpus}: does not report SM application clock (failed: NVML 26: deprecated) (and 1 more)",
        lambda machine: [
            every(machine, key, {"why": "failed", "detail": "NVML 26: deprecated", "nvml": 26})
            for key in ("sm_clock_app_mhz", "memory_clock_app_mhz")
        ],
    ),
    Case(
        "driver 595 dropped these settings, told as not supported",
        "clocks.application",
        SKIP,
        "{gpus}: does not report SM application clock (not supported) (and 1 more)",
        lambda machine: [every(machine, key, UNSUPPORTED) for key in ("sm_clock_app_mhz", "memory_clock_app_mhz")],
    ),
    Case(
        "the memory's setting is not reported by one GPU of eight",
        "clocks.application",
        ERROR,
        f"{{gpu3}}: could not read memory application clock: not supported - {_SEE}",
        lambda machine: machine.set_gpu(3, "memory_clock_app_mhz", UNSUPPORTED),
    ),
    Case(
        "the setting could not be read",
        "clocks.application",
        ERROR,
        f"{{gpu3}}: could not read SM application clock: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(3, "sm_clock_app_mhz", FAILED),
    ),
)

REASONS = (
    Case(
        "idle",
        "clocks.event_reasons",
        PASS,
        "{gpus}: clock held by gpu_idle",
    ),
    Case(
        "under full load the power cap holds it, which is no fault",
        "clocks.event_reasons",
        PASS,
        "{gpus}: clock held by sw_power_cap",
        lambda machine: every(machine, "event_reasons", 0x4),
    ),
    Case(
        "application clocks are set, which is no fault here",
        "clocks.event_reasons",
        PASS,
        "{gpus}: clock held by applications_clocks_setting",
        lambda machine: every(machine, "event_reasons", 0x2),
    ),
    Case(
        "the power supply brakes",
        "clocks.event_reasons",
        FAIL,
        "{gpu6}: clock limited by hw_power_brake_slowdown - check power supplies and power cables of "
        "this node; then power-cycle it",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x88),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "heat, by the hardware",
        "clocks.event_reasons",
        FAIL,
        "{gpu6}: clock limited by hw_thermal_slowdown - check fans, airflow or coolant, and the seat "
        "of the heat sink; compare with the same slot of other nodes",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x48),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "heat, by the driver, at delivery",
        "clocks.event_reasons",
        FAIL,
        "{gpu6}: clock limited by sw_thermal_slowdown - check fans, airflow or coolant, and the seat "
        "of the heat sink; compare with the same slot of other nodes",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x24),
    ),
    Case(
        "heat, by the driver, before a job",
        "clocks.event_reasons",
        WARN,
        "{gpu6}: clock limited by sw_thermal_slowdown - check fans, airflow or coolant, and the seat "
        "of the heat sink; compare with the same slot of other nodes",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x24),
        profile=Profile.BOOTCHECK,
    ),
    Case(
        "a reason that a later driver has",
        "clocks.event_reasons",
        WARN,
        f"{{gpu6}}: clock limited by bit_0x800 - {_POWER}",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x800),
    ),
    Case(
        "the board's own limit",
        "clocks.event_reasons",
        WARN,
        f"{{gpu6}}: clock limited by board_limit - {_POWER}",
        lambda machine: machine.set_gpu(6, "event_reasons", 0x200),
    ),
    Case(
        "the voltage limit for reliability",
        "clocks.event_reasons",
        PASS,
        "{gpus}: clock held by reliability",
        lambda machine: every(machine, "event_reasons", 0x400),
    ),
    Case(
        "not told",
        "clocks.event_reasons",
        SKIP,
        "{gpus}: does not report clock event reasons (not supported)",
        lambda machine: every(machine, "event_reasons", UNSUPPORTED),
        limits={"gpu.reports": None},
    ),
    Case(
        "could not be read",
        "clocks.event_reasons",
        ERROR,
        f"{{gpu6}}: could not read clock event reasons: failed: NVML 999 - {_SEE}",
        lambda machine: machine.set_gpu(6, "event_reasons", FAILED),
    ),
    Case(
        "never slowed but by power",
        "clocks.violations",
        PASS,
        "{gpus}: time slowed by heat 0 s",
    ),
    Case(
        "was slowed by heat",
        "clocks.violations",
        WARN,
        "{gpu6}: time slowed by heat 12.5 s, expected at most 0 s (none on a healthy GPU) - check "
        "fans, airflow or coolant, and the seat of the heat sink; compare with the same slot of other "
        "nodes",
        lambda machine: machine.set_gpu(6, "violation_ns.thermal", 12_500_000_000),
    ),
    Case(
        "the counters are not told",
        "clocks.violations",
        SKIP,
        "{gpus}: does not report time slowed by heat (not supported) (and 2 more)",
        lambda machine: every(machine, "violation_ns", UNSUPPORTED),
    ),
)


@pytest.mark.parametrize("case", [*IDLE, *POWER, *CLOCKS, *REASONS], ids=str)
def test_case(case: Case) -> None:
    assert_case(case)
