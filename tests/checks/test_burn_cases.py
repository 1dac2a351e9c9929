"""What the burn checks say of one burn with one fault, word for word, and of the burns that only look faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.burning import BurnCase, checks, every_window, judged, ran_by_others, refused

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import not_run
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine
    from support.burning import Document

PASS, WARN, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
AGAIN = "burn this node again; see the evidence file for what the GPU reported"
RMA = "drain the node; run field diagnostics and replace the board (RMA)"
POWER = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"
RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
REFUSED = "fix this (a job on the GPUs, MIG, no driver), then run again"
SLOW = "compare clock, power and heat with a good GPU; reseat or replace the board"
GPU3 = "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
COOLING = "check fans, air flow, heat sink and inlet temperature"


def gpu(index: int, **values: object) -> Callable[[Document], object]:
    return lambda found: found["gpus"][index].update(values)


def phase(index: int, number: int, **values: object) -> Callable[[Document], object]:
    return lambda found: found["gpus"][index]["phases"][number].update(values)


def load(index: int, **values: object) -> Callable[[Document], object]:
    return lambda found: every_window(found, index, **values)


def moment(index: int, second: int, **values: object) -> Callable[[Document], object]:
    return lambda found: found["gpus"][index]["samples"]["windows"][second + 1].update(values)


def idle_from(index: int, second: int) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        for each in found["gpus"][index]["samples"]["windows"][second + 1 :]:
            each["load"] = 0

    return change


def odd_with_cublas(*, stopped: bool = False, **own: object) -> Callable[[Document], object]:
    """GPU 3's result in fp32 is odd; then the same with own kernels, with something changed on it."""

    def change(found: Document) -> None:
        phase(3, 1, checksum="deadbeef")(found)
        clean = {"dtype": "fp32", "matrix": 8192, "iterations": 9, "seconds": 4.0, "checksum": "0000aaaa"}
        clean |= {"mismatches": 0, "reference_errors": 0}
        names = ("index", "name", "multiprocessors")
        found["again"] = [
            {name: gpu[name] for name in names} | {"error": "", "phases": [dict(clean)]} for gpu in found["gpus"]
        ]
        found["again"][3]["phases"][0].update(own)
        found["again"][3]["error"] = "no answer within 60 s" if stopped else ""

    return change


def without_fp64(found: Document) -> None:
    """As on a board that has no units for it."""
    for each in found["gpus"]:
        each["left_out"] = {"fp64": "this board has hardly any units for it"}
        each["phases"] = each["phases"][:2]
        each["phases"][0]["seconds"] += 12.0


def every_gpu(**values: object) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        for index in range(8):
            every_window(found, index, **values)

    return change


def stopped(found: Document) -> None:
    gpu(3, error="no answer within 60 s, at cuStreamSynchronize")(found)
    found["gpus"][3]["phases"] = found["gpus"][3]["phases"][:1]


def never_started(found: Document) -> None:
    error = "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_YET_INITIALIZED"
    gpu(3, error=error, started_s=None, phases=[], samples={"windows": [], "error": error})(found)


def without(index: int) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        found["gpus"] = [each for each in found["gpus"] if each["index"] != index]

    return change


def without_quantity(index: int, quantity: str, why: str) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        samples = found["gpus"][index]["samples"]
        samples["unread"] = {quantity: {"why": why, "detail": "NVML"}}
        for window in samples["windows"]:
            window.pop(quantity, None)

    return change


def slow(part: float) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        for each in found["gpus"][3]["phases"]:
            each["tflops"] *= part

    return change


def growing(counter: str, by: int) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        windows = found["gpus"][3]["samples"]["windows"]
        for number, window in enumerate(windows):
            count = by if number > 40 else 0
            window[counter] = [count, count, count]

    return change


def two_models(found: Document) -> None:
    for index in range(6):
        gpu(index, name="NVIDIA A100-SXM4-80GB", multiprocessors=108)(found)
        phase(index, 0, checksum="aaaaaaaa")(found)


def disagreeing_pair(found: Document) -> None:
    two_models(found)
    phase(7, 0, checksum="bbbbbbbb")(found)


def no_slowdown(machine: Machine) -> None:
    for key in ("temperature_margin_c", "temperature_slowdown_c"):
        machine.set_gpu(3, key, {"why": "not supported", "detail": "NVML 3"})


def capped(machine: Machine) -> None:
    for index in range(8):
        machine.set_gpu(index, "power_limit_enforced_mw", 500_000)


def no_enforced_limit(machine: Machine) -> None:
    for index in range(8):
        machine.set_gpu(index, "power_limit_enforced_mw", {"why": "missing", "detail": "NVML 13"})


def own_kernels(watts: float) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        every_gpu(power_w=[watts - 5, watts, watts + 5])(found)
        for index in range(8):
            gpu(index, path="ptx")(found)

    return change


def all_without(quantity: str) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        for index in range(8):
            without_quantity(index, quantity, "not supported")(found)

    return change


def lighter_after(seconds: float) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        for each in found["gpus"]:
            for window in each["samples"]["windows"]:
                if window["start_s"] >= seconds:
                    window["power_w"] = [400.0, 410.0, 430.0]

    return change


def gen4_slot(machine: Machine) -> None:
    for index in range(8):
        machine.set_gpu(index, "link_gen_max", 4)


BROKE = not_run("burn", CannotMeasure("gpu01: the connection broke", next_step="look at the node"))

COMPLETE = (
    BurnCase(
        "a type of numbers that the board does not have",
        "burn.complete",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: worked to the end of 60 s in bf16, fp32",
        without_fp64,
    ),
    BurnCase(
        "bf16 cannot be left out",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read burn result: bf16 was not measured - {AGAIN}",
        lambda found: found["gpus"][3].update(left_out={"bf16": "no"}, phases=found["gpus"][3]["phases"][1:]),
    ),
    BurnCase(
        "healthy",
        "burn.complete",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: "
            "worked to the end of 60 s in bf16, fp32, fp64"
        ),
    ),
    BurnCase(
        "a GPU that hangs under load",
        "burn.complete",
        FAIL,
        f"{GPU3}: stopped working under load: no answer within 60 s, at cuStreamSynchronize - {RESET}",
        stopped,
    ),
    BurnCase(
        "a GPU that never starts",
        "burn.complete",
        ERROR,
        (f"{GPU3}: could not read burn result: cuInit: 802 CUDA_ERROR_SYSTEM_NOT_YET_INITIALIZED - {AGAIN}"),
        never_started,
    ),
    BurnCase(
        "a GPU that is left out",
        "burn.complete",
        ERROR,
        f"{GPU3}: took no part in the burn - {AGAIN}",
        without(3),
    ),
    BurnCase(
        "a phase that was not reached",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read burn result: fp64 was not measured - {AGAIN}",
        phase(3, 2, tflops=None),
    ),
    BurnCase(
        "a GPU that worked for half of the time",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read burn: worked 42 s of the requested 60 s - {AGAIN}",
        phase(3, 0, seconds=18.0),
    ),
    BurnCase(
        "a GPU that stood still",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read burn: computed in only 40 % of the samples under load - {AGAIN}",
        idle_from(3, 24),
    ),
    BurnCase(
        "a GPU that stalled for twenty seconds, in no sample",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read burn: stalled for 20 s, 9 s after the start - {AGAIN}",
        phase(3, 0, windows_s=[*(float(at) for at in range(1, 10)), 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0]),
    ),
    BurnCase(
        "pieces of uneven length",
        "burn.complete",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: "
            "worked to the end of 60 s in bf16, fp32, fp64"
        ),
        phase(3, 0, windows_s=[1.1, 2.4, 3.5, 6.0, 7.1, 15.2, 16.4, 17.5, 27.0, 28.1, 30.2, 33.0, 36.2]),
    ),
    BurnCase(
        "a GPU that nobody watched",
        "burn.complete",
        ERROR,
        f"{GPU3}: could not read state under load: NVML 999 - {AGAIN}",
        gpu(3, samples={"error": "NVML 999"}),
    ),
    BurnCase(
        "GPUs in use",
        "burn.complete",
        ERROR,
        f"node: burn not run: GPU 2 is in use by pid 4711 (python) - {REFUSED}",
        refused,
    ),
)
RESULTS = (
    BurnCase(
        "healthy",
        "burn.results",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 60000 products without a "
            "wrong result, the first equal on 7 GPUs of its model"
        ),
    ),
    BurnCase(
        "a word that changes",
        "burn.results",
        FAIL,
        (
            f"{GPU3}: 12 wrong results in bf16 (first in product 4711 after 31 s at row 17, column 4096): "
            f"silent data corruption - {RMA}"
        ),
        phase(
            3,
            0,
            mismatches=12,
            first_mismatch={"iteration": 4711, "at_s": 31.2, "row": 17, "column": 4096, "words": 12},
        ),
    ),
    BurnCase(
        "a GPU that is always wrong",
        "burn.results",
        FAIL,
        (
            f"{GPU3}: fp32 result deadbeef differs from that of GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, "
            f"GPU 7: silent data corruption - {RMA}"
        ),
        phase(3, 1, checksum="deadbeef"),
    ),
    BurnCase(
        "a result that is odd with cuBLAS alone",
        "burn.results",
        ERROR,
        (
            f"{GPU3}: could not read fp32 result comparison: cuBLAS's fp32 result deadbeef differs from that of GPU 0, "
            "GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7, while nodegate's own kernels give equal bits: another "
            "algorithm, "
            "or a fault that they did not hit - set nodegate_cublas: none for this node and burn it again; if that is "
            "clean, the GPU is good: compare its VBIOS and settings with those of the others"
        ),
        odd_with_cublas(),
    ),
    *(
        BurnCase(
            f"a result that is odd with cuBLAS, and {what}",
            "burn.results",
            FAIL,
            (
                f"{GPU3}: fp32 result deadbeef differs from that of GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, "
                f"GPU 7: silent data corruption - {RMA}"
            ),
            change,
        )
        for what, change in (
            ("with own kernels too", odd_with_cublas(checksum="deadbeef")),
            ("wrong later with own kernels", odd_with_cublas(mismatches=1)),
            ("wrong on the host with own kernels", odd_with_cublas(reference_errors=2)),
            ("stopped with own kernels", odd_with_cublas(stopped=True)),
        )
    ),
    BurnCase(
        "a first result that is wrong",
        "burn.results",
        FAIL,
        f"{GPU3}: 3 of 32 elements wrong in the first fp32 result: silent data corruption - {RMA}",
        phase(3, 1, reference_errors=3),
    ),
    BurnCase(
        "two models compared with their own kind",
        "burn.results",
        PASS,
        (
            "6 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5: 60000 products without a wrong result, the "
            "first equal on 5 GPUs of its model"
        ),
        two_models,
    ),
    BurnCase(
        "two GPUs that differ",
        "burn.results",
        FAIL,
        (
            "GPU 6 (0000:bb:00.0, S/N 1650001000006): bf16 result 5d41402a differs from that of GPU 7, "
            f"with no majority to say which is right: silent data corruption - {RMA} (and 1 more)"
        ),
        disagreeing_pair,
    ),
    BurnCase(
        "wrong in the first burn, right in the second",
        "burn.results",
        FAIL,
        f"{GPU3}: 1 wrong result in bf16: silent data corruption - {RMA}",
        phase(3, 0, mismatches=1),
        again=[lambda found: None],
    ),
    BurnCase(
        "a GPU without a result",
        "burn.results",
        ERROR,
        (f"{GPU3}: could not read result comparison: cuInit: 802 CUDA_ERROR_SYSTEM_NOT_YET_INITIALIZED - {AGAIN}"),
        never_started,
    ),
    BurnCase(
        "a count that is not told",
        "burn.results",
        ERROR,
        f"{GPU3}: could not read bf16 result comparison: failed - {AGAIN}",
        phase(3, 0, mismatches={"why": "failed"}),
    ),
)
THROUGHPUT = (
    BurnCase(
        "healthy, in a fleet",
        "burn.throughput",
        PASS,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): bf16 rate 700 TFLOPS; median 700 TFLOPS of 8 other "
            "nodes, GPU 0 of each"
        ),
        nodes=9,
    ),
    BurnCase(
        "a slow GPU in a fleet",
        "burn.throughput",
        FAIL,
        (
            f"{GPU3}: bf16 rate 632 TFLOPS, expected at least 640 TFLOPS (h100.yaml burn.bf16_tflops: "
            f"test); 10.0 % below the median 702.1 TFLOPS of 8 other nodes, GPU 3 of each - {SLOW} (and 2 "
            "more)"
        ),
        slow(0.9),
        nodes=9,
    ),
    BurnCase(
        "slow only once",
        "burn.throughput",
        NOT_JUDGED,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): fp32 rate 51 TFLOPS; no limit burn.fp32_tflops, and "
            "the platform is not known - add a limit for this platform: nodegate baseline learn, or "
            "--baseline (and 15 more)"
        ),
        slow(0.9),
        again=[slow(1.0), slow(1.0)],
    ),
    BurnCase(
        "no rate from one GPU",
        "burn.throughput",
        ERROR,
        (f"{GPU3}: could not read bf16, fp32, fp64 rate: cuInit: 802 CUDA_ERROR_SYSTEM_NOT_YET_INITIALIZED - {AGAIN}"),
        never_started,
        nodes=9,
    ),
)
SPREAD = (
    BurnCase("healthy", "burn.node_spread", PASS, "GPU 0 (0000:19:00.0, S/N 1650001000000): bf16 rate 700 TFLOPS"),
    BurnCase(
        "a GPU 6 % below its node",
        "burn.node_spread",
        WARN,
        (
            f"{GPU3}: bf16 rate 660 TFLOPS, expected at least 667 TFLOPS (95 % of 702 TFLOPS, the median of "
            f"8 GPUs of this node; h100.yaml burn.node_spread_percent: test) - {SLOW} (and 2 more)"
        ),
        slow(0.94),
    ),
    BurnCase(
        "a GPU 4 % below its node",
        "burn.node_spread",
        PASS,
        "GPU 0 (0000:19:00.0, S/N 1650001000000): bf16 rate 700 TFLOPS",
        slow(0.96),
    ),
    BurnCase(
        "nothing measured",
        "burn.node_spread",
        ERROR,
        f"node: burn not run: GPU 2 is in use by pid 4711 (python) - {REFUSED}",
        refused,
    ),
    BurnCase(
        "no limit",
        "burn.node_spread",
        NOT_JUDGED,
        "node: no limit burn.node_spread_percent for platform hgx-h100-8",
        limits={"burn.node_spread_percent": None},
    ),
)
REASONS = (
    BurnCase(
        "the power cap is normal",
        "burn.clock_reasons",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: clock held by software power "
            "cap 100 % of the time"
        ),
    ),
    BurnCase(
        "a power brake in one sample",
        "burn.clock_reasons",
        FAIL,
        (f"{GPU3}: clock limited under load by power brake (power supply) less than 1 % of the time - {POWER}"),
        moment(3, 30, reason_samples={"4": 5, "8": 1, "128": 1}),
    ),
    BurnCase(
        "heat",
        "burn.clock_reasons",
        FAIL,
        (f"{GPU3}: clock limited under load by hardware thermal slowdown 40 % of the time - {COOLING}"),
        load(3, reason_samples={"64": 2, "8": 2}),
    ),
    BurnCase(
        "heat by the driver, at delivery",
        "burn.clock_reasons",
        FAIL,
        (f"{GPU3}: clock limited under load by thermal slowdown by the driver 100 % of the time - {COOLING}"),
        load(3, reason_samples={"32": 5}),
    ),
    BurnCase(
        "heat by the driver in one sample",
        "burn.clock_reasons",
        WARN,
        (f"{GPU3}: clock limited under load by thermal slowdown by the driver less than 1 % of the time - {COOLING}"),
        moment(3, 30, reason_samples={"4": 5, "32": 1}),
    ),
    BurnCase(
        "idle in its own burn",
        "burn.clock_reasons",
        ERROR,
        (
            f"{GPU3}: could not read clock event reasons: NVML calls it idle for 100 % of its own burn: it did not "
            f"burn, or another GPU is read - {AGAIN}"
        ),
        load(3, reason_samples={"1": 5}),
    ),
    BurnCase(
        "heat by the driver, at night",
        "burn.clock_reasons",
        WARN,
        (f"{GPU3}: clock limited under load by thermal slowdown by the driver 100 % of the time - {COOLING}"),
        load(3, reason_samples={"32": 5}),
        profile=Profile.NIGHTLY,
    ),
    BurnCase(
        "a bit without a name",
        "burn.clock_reasons",
        WARN,
        f"{GPU3}: clock limited under load by bit_0x800 2 % of the time - {POWER}",
        moment(3, 30, reason_samples={"2048": 5}),
    ),
    BurnCase(
        "the board's own limit",
        "burn.clock_reasons",
        WARN,
        f"{GPU3}: clock limited under load by the board's own limit 2 % of the time - {POWER}",
        moment(3, 30, reason_samples={"512": 5}),
    ),
    BurnCase(
        "the voltage limit is normal",
        "burn.clock_reasons",
        PASS,
        (
            "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: clock held by software power "
            "cap 100 % of the time"
        ),
        load(3, reason_samples={"4": 5, "1024": 5}),
    ),
    BurnCase(
        "heat in two samples of 300",
        "burn.clock_reasons",
        WARN,
        f"{GPU3}: clock limited under load by hardware thermal slowdown less than 1 % of the time - {COOLING}",
        moment(3, 30, reason_samples={"4": 5, "8": 2, "64": 2}),
    ),
    BurnCase(
        "heat in three samples of 300",
        "burn.clock_reasons",
        FAIL,
        f"{GPU3}: clock limited under load by hardware thermal slowdown 1 % of the time - {COOLING}",
        moment(3, 30, reason_samples={"4": 5, "8": 3, "64": 3}),
    ),
    BurnCase(
        "slowed between two samples, at delivery",
        "burn.clock_reasons",
        FAIL,
        f"{GPU3}: slowed down by heat for 2.4 s of the burn, expected at most 1 s (h100.yaml burn.slowed_s: test) - "
        f"{COOLING}",
        lambda found: found["gpus"][3]["samples"]["violations_ns"].update(thermal=2_400_000_000),
    ),
    BurnCase(
        "slowed between two samples, at night",
        "burn.clock_reasons",
        WARN,
        f"{GPU3}: slowed down by heat for 2.4 s of the burn, expected at most 1 s (h100.yaml burn.slowed_s: test) - "
        f"{COOLING}",
        lambda found: found["gpus"][3]["samples"]["violations_ns"].update(thermal=2_400_000_000),
        profile=Profile.NIGHTLY,
    ),
    BurnCase(
        "slowed by the board for longer than it may",
        "burn.clock_reasons",
        WARN,
        f"{GPU3}: slowed down by the board limit for 2.4 s of the burn, expected at most 1 s (h100.yaml burn.slowed_s: "
        "test) - "
        f"{POWER}",
        lambda found: found["gpus"][3]["samples"]["violations_ns"].update(board_limit=2_400_000_000),
    ),
    BurnCase(
        "slowed for a moment",
        "burn.clock_reasons",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: clock held by software power "
            "cap 100 % of the time"
        ),
        lambda found: found["gpus"][3]["samples"]["violations_ns"].update(thermal=400_000_000, board_limit=1),
    ),
    BurnCase(
        "a fault before the load",
        "burn.clock_reasons",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: clock held by software power "
            "cap 100 % of the time"
        ),
        moment(3, -1, reason_samples={"8": 5}),
    ),
    BurnCase(
        "not watched",
        "burn.clock_reasons",
        ERROR,
        f"{GPU3}: could not read clock event reasons: NVML 999 - {AGAIN}",
        gpu(3, samples={"error": "NVML 999"}),
    ),
)
CLOCK = (
    BurnCase(
        "healthy, alone",
        "burn.clock",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: SM clock under load 1755 MHz",
    ),
    BurnCase(
        "a GPU at 500 MHz",
        "burn.clock",
        FAIL,
        (
            f"{GPU3}: SM clock under load 500 MHz, expected at least 1580 MHz (90 % of 1755 MHz, the median "
            "of 8 GPUs of this node; h100.yaml burn.clock_share_percent: test); held down by hardware "
            f"slowdown 100 % of the time, power brake (power supply) 100 % of the time - {POWER}"
        ),
        load(3, sm_clock_mhz=[480, 500, 510], reason_samples={"128": 5, "8": 5}),
    ),
    BurnCase(
        "a GPU 9 % below its node",
        "burn.clock",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: SM clock under load 1755 MHz",
        load(3, sm_clock_mhz=[1500, 1600, 1700]),
    ),
    BurnCase(
        "a whole node that is short of power, in a fleet",
        "burn.clock",
        FAIL,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): SM clock under load 1200 MHz, expected at least 1580 "
            "MHz (90 % of 1755 MHz, the median of 8 other nodes; h100.yaml burn.clock_share_percent: "
            f"test); held down by software power cap 100 % of the time - {POWER} (and 7 more)"
        ),
        every_gpu(sm_clock_mhz=[1100, 1200, 1300]),
        nodes=9,
    ),
    BurnCase(
        "no clock",
        "burn.clock",
        ERROR,
        f"{GPU3}: could not read SM clock under load: failed: NVML - {AGAIN}",
        without_quantity(3, "sm_clock_mhz", "failed"),
    ),
    BurnCase(
        "no clock by design",
        "burn.clock",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: SM clock under load 1755 MHz",
        without_quantity(3, "sm_clock_mhz", "not supported"),
    ),
)
HEAT = (
    BurnCase(
        "healthy",
        "burn.temperature",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: 64 °C under load: 22 °C "
            "below its slowdown limit"
        ),
    ),
    BurnCase(
        "2 °C from its slowdown",
        "burn.temperature",
        FAIL,
        (
            f"{GPU3}: 84 °C under load: 2 °C below its slowdown limit, expected at most 83 °C (3 °C below "
            f"the slowdown; h100.yaml burn.temperature_margin_c: test) - {COOLING}"
        ),
        load(3, temperature_c=[80, 83, 84]),
    ),
    BurnCase(
        "the same at night",
        "burn.temperature",
        WARN,
        (
            f"{GPU3}: 84 °C under load: 2 °C below its slowdown limit, expected at most 83 °C (3 °C below "
            f"the slowdown; h100.yaml burn.temperature_margin_c: test) - {COOLING}"
        ),
        load(3, temperature_c=[80, 83, 84]),
        profile=Profile.NIGHTLY,
    ),
    BurnCase(
        "a GPU without threshold",
        "burn.temperature",
        PASS,
        ("7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: 64 °C under load: 22 °C below its slowdown limit"),
        machine=no_slowdown,
    ),
    BurnCase(
        "no temperature",
        "burn.temperature",
        ERROR,
        f"{GPU3}: could not read temperature under load: failed: NVML - {AGAIN}",
        without_quantity(3, "temperature_c", "failed"),
    ),
)
POWER_DRAWN = (
    BurnCase(
        "healthy, at the power cap",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.7 % of the limit",
    ),
    BurnCase(
        "fp32 and fp64 draw less: the heaviest part counts",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.7 % of the limit",
        lighter_after(36),
    ),
    BurnCase(
        "a GPU at half of its power",
        "burn.power",
        WARN,
        (
            f"{GPU3}: power in bf16 50 % of the limit, expected at least 85 % of the limit (h100.yaml "
            "burn.power_percent: test); 350 of 700 W: cooling and power supply were not stressed; bf16 350 W, "
            "1755 MHz, 62 °C; fp32 350 W, 1755 MHz, 62 °C; fp64 350 W, 1755 MHz, 62 °C - "
            "find what limits it (burn.clock_reasons, burn.throughput), then burn again"
        ),
        load(3, power_w=[340, 350, 360]),
    ),
    BurnCase(
        "capped at 500 W: at its limit",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.2 % of the limit",
        every_gpu(power_w=[490, 496, 505]),
        machine=capped,
    ),
    BurnCase(
        "own kernels, a little less",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 78.6 % of the limit",
        own_kernels(550),
    ),
    BurnCase(
        "own kernels that do not heat the board",
        "burn.power",
        WARN,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): power in bf16 50 % of the limit, expected at least 70 % of the "
            "limit (h100.yaml burn.power_own_kernels_percent: test); 350 of 700 W: cooling and power supply "
            "were not stressed; bf16 350 W, 1755 MHz, 62 °C; fp32 350 W, 1755 MHz, 62 °C; fp64 350 W, 1755 MHz, "
            "62 °C - "
            "give the burn a cuBLAS (nodegate_cublas or --tools) and burn again: nodegate's own "
            "kernels do not heat this GPU (and 7 more)"
        ),
        own_kernels(350),
    ),
    BurnCase(
        "once hot, once disturbed",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.7 % of the limit",
        load(3, power_w=[340, 350, 360]),
        again=(load(3),),
    ),
    BurnCase(
        "no power of one GPU",
        "burn.power",
        ERROR,
        f"{GPU3}: could not read power under load: failed: NVML - {AGAIN}",
        without_quantity(3, "power_w", "failed"),
    ),
    BurnCase(
        "one GPU has no sensor, the others have",
        "burn.power",
        ERROR,
        f"{GPU3}: could not read power under load: not supported: NVML - {AGAIN}",
        without_quantity(3, "power_w", "not supported"),
    ),
    BurnCase(
        "no GPU has a sensor: nothing is proven",
        "burn.power",
        NOT_JUDGED,
        "GPU 0 (0000:19:00.0, S/N 1650001000000): does not report power under load (not supported: NVML) (and 7 more)",
        all_without("power_w"),
    ),
    BurnCase(
        "twice its limit",
        "burn.power",
        ERROR,
        (
            f"{GPU3}: could not read power under load: 1400 of 700 W cannot be: the sensor or the limit is wrong - "
            f"{AGAIN}"
        ),
        load(3, power_w=[1300, 1400, 1500]),
    ),
    BurnCase(
        "no limit in force",
        "burn.power",
        ERROR,
        f"{GPU3}: could not read power limit in force: failed: NVML 999 - {AGAIN}",
        machine=lambda machine: machine.set_gpu(3, "power_limit_enforced_mw", {"why": "failed", "detail": "NVML 999"}),
    ),
    BurnCase(
        "a driver that tells only the limit that is set",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.7 % of the limit",
        machine=no_enforced_limit,
    ),
    BurnCase(
        "a GPU that stopped",
        "burn.power",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: power in bf16 99.7 % of the limit",
        stopped,
    ),
    BurnCase(
        "the watcher broke off",
        "burn.power",
        ERROR,
        f"{GPU3}: could not read power under load: failed: the sampler died - {AGAIN}",
        gpu(3, samples={"windows": [], "error": "the sampler died"}),
    ),
    BurnCase(
        "no limit in the baselines",
        "burn.power",
        NOT_JUDGED,
        "node: no limit burn.power_percent for platform hgx-h100-8",
        limits={"burn.power_percent": None},
    ),
)
ECC = (
    BurnCase(
        "healthy",
        "burn.ecc",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors "
            "during the burn 0"
        ),
    ),
    BurnCase(
        "uncorrected",
        "burn.ecc",
        FAIL,
        f"{GPU3}: uncorrected memory errors during the burn 1, expected at most 0 (none on a healthy GPU) - {RESET}",
        growing("ecc_uncorrected", 1),
    ),
    BurnCase(
        "very many corrected",
        "burn.ecc",
        WARN,
        (
            f"{GPU3}: corrected memory errors during the burn 400, expected at most 17 (1000 an hour "
            f"over 60 s; h100.yaml counters.ecc_corrected_per_h: test) - {RESET}"
        ),
        growing("ecc_corrected", 400),
    ),
    BurnCase(
        "a few corrected",
        "burn.ecc",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors "
            "during the burn 0"
        ),
        growing("ecc_corrected", 9),
    ),
    BurnCase(
        "errors from before",
        "burn.ecc",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors "
            "during the burn 0"
        ),
        lambda found: [window.update(ecc_uncorrected=[3, 3, 3]) for window in found["gpus"][3]["samples"]["windows"]],
    ),
    BurnCase(
        "counter reset",
        "burn.ecc",
        ERROR,
        (
            f"{GPU3}: could not read uncorrected memory errors during the burn: failed: the counter decreased "
            "during the burn: it was reset - see the evidence file for what the node answered"
        ),
        moment(3, 30, ecc_uncorrected=[5, 5, 5]),
    ),
    BurnCase(
        "a GPU without ECC",
        "burn.ecc",
        PASS,
        (
            "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: uncorrected memory errors "
            "during the burn 0"
        ),
        without_quantity(3, "ecc_corrected", "not supported"),
    ),
)
LINK = (
    BurnCase(
        "healthy",
        "burn.link",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation under load 5",
    ),
    BurnCase(
        "Gen1 under load",
        "burn.link",
        FAIL,
        (
            f"{GPU3}: PCIe generation under load 1, expected at least 5 (what the GPU and slot support) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        load(3, link_gen=[1, 1, 5]),
    ),
    BurnCase(
        "lanes lost under load",
        "burn.link",
        FAIL,
        (
            f"{GPU3}: PCIe link width under load 8 lanes, expected at least 16 lanes (before the burn) - "
            "power-cycle the node; if it stays, reseat the board or riser"
        ),
        load(3, link_width=[8, 8, 16]),
    ),
    BurnCase(
        "a slot of Gen4",
        "burn.link",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation under load 4",
        every_gpu(link_gen=[4, 4, 4]),
        machine=gen4_slot,
    ),
    BurnCase(
        "Gen1 before the load",
        "burn.link",
        PASS,
        "8 alike: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5, GPU 6, GPU 7: PCIe generation under load 5",
        moment(3, -1, link_gen=[1, 1, 1]),
    ),
    BurnCase(
        "not told",
        "burn.link",
        ERROR,
        (
            f"{GPU3}: could not read PCIe generation under load: failed: NVML - see the evidence file for "
            "what the node answered"
        ),
        without_quantity(3, "link_gen", "failed"),
    ),
)
OTHER = (
    BurnCase(
        "not installed",
        "burn.gpu_burn",
        SKIP,
        "node: gpu_burn was not run: it is not installed, or the burn is shorter than 5 min",
    ),
    BurnCase(
        "healthy",
        "burn.gpu_burn",
        PASS,
        "2 alike: GPU 0, GPU 1: 1120 products without an error in gpu_burn (fp32)",
        others=(ran_by_others("healthy.txt"),),
    ),
    BurnCase(
        "wrong results, and a dead GPU",
        "burn.gpu_burn",
        FAIL,
        (
            "GPU 1 (0000:1b:00.0, S/N 1650001000001): 7 wrong results in gpu_burn (fp32): silent data "
            f"corruption - {RMA} (and 1 more)"
        ),
        others=(ran_by_others("faulty.txt"),),
    ),
    BurnCase(
        "GPUs that never ran",
        "burn.gpu_burn",
        ERROR,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): could not read gpu_burn result (fp32): "
            f"no report shows any work, whatever the final list claims - {AGAIN} (and 1 more)"
        ),
        others=(ran_by_others("no-report.txt"),),
    ),
    BurnCase(
        "ended before its list",
        "burn.gpu_burn",
        ERROR,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): could not read gpu_burn result (fp32): missing: "
            f"gpu_burn did not reach its list of GPUs - {AGAIN} (and 1 more)"
        ),
        others=(ran_by_others("truncated.txt"),),
    ),
    BurnCase(
        "no CUDA",
        "burn.gpu_burn",
        ERROR,
        (
            "gpu_burn: could not read result (fp32): gpu_burn printed no report: cuInit returned 802 "
            "(system not yet initialized) - run gpu_burn on the node by hand, in its own folder"
        ),
        others=(
            ran_by_others("empty.txt", stderr="cuInit returned 802 (system not yet initialized)\nNo CUDA devices"),
        ),
    ),
    BurnCase(
        "an older list, one device",
        "burn.gpu_burn",
        PASS,
        f"{GPU3}: 840 products without an error in gpu_burn (fp32)",
        others=(ran_by_others("one-device.txt"),),
    ),
)
TABLES = (COMPLETE, RESULTS, THROUGHPUT, SPREAD, REASONS, CLOCK, HEAT, POWER_DRAWN, ECC, LINK, OTHER)


@pytest.mark.parametrize("case", [case for table in TABLES for case in table], ids=str)
def test_case(case: BurnCase) -> None:
    record = judged(case)
    assert record.message == case.message
    assert record.verdict is case.verdict
    for finding in record.findings:
        if finding.verdict in (WARN, FAIL, ERROR):
            assert finding.message.endswith(f" - {finding.action}")
            assert finding.action


def test_each_check_has_a_case_that_passes_one_that_is_bad_and_one_that_cannot_be_judged() -> None:
    for check in checks():
        tried = {case.verdict for table in TABLES for case in table if case.check == check}
        assert {PASS, ERROR} <= tried, check
        assert tried & {WARN, FAIL}, check
