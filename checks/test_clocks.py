"""Clocks: every GPU may reach the clocks of its model, and nothing holds it down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.finding import Limit
from nodegate.profile import Profile
from nodegate.subjects.gpu import answering, lacks
from nodegate.unknown import Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.probe.gpu import Gpu, Gpus

pytestmark = pytest.mark.tier("bootcheck")

_FAULTS = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
_HEAT = frozenset({"sw_thermal_slowdown"})
_HARMLESS = frozenset(
    {"gpu_idle", "sw_power_cap", "applications_clocks_setting", "sync_boost", "display_clock_setting"}
)
_COOLING = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"


def test_sm_max(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The highest SM clock that every GPU may reach is its model's. (F08, F09)

    A wrong VBIOS or a locked clock keeps a GPU slow under all load. The clock of the moment says nothing: an idle GPU
    runs low by design.
    """
    limit = baseline.number("gpu.sm_clock_max_mhz")
    for gpu in answering(gpus, verdicts):
        verdicts.at_least(
            part=gpu.part,
            quantity="highest SM clock",
            observed=gpu.sm_clock_max_mhz,
            limit=limit,
            action="compare the VBIOS with a good node's; run nvidia-smi -rgc",
        )


def test_memory_max(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The highest memory clock that every GPU may reach is its model's. (F08, F09)

    Memory bandwidth follows it.
    """
    limit = baseline.number("gpu.memory_clock_max_mhz")
    for gpu in answering(gpus, verdicts):
        verdicts.at_least(
            part=gpu.part,
            quantity="highest memory clock",
            observed=gpu.memory_clock_max_mhz,
            limit=limit,
            action="compare the VBIOS with a good node's; run nvidia-smi -rmc",
        )


def test_application(gpus: Gpus, verdicts: Verdicts) -> None:
    """The application clocks of every GPU are not below its own default. (F08, F09)

    A setting left behind by someone's measurement slows every later job. The default itself may be below the highest
    clock (A100-40GB: 1095 of 1410 MHz). Driver 595 dropped these settings: then only the highest clocks are judged.
    """
    for gpu in answering(gpus, verdicts):
        _not_below(gpu, "SM", gpu.sm_clock_app_mhz, gpu.sm_clock_app_default_mhz, verdicts)
        _not_below(gpu, "memory", gpu.memory_clock_app_mhz, gpu.memory_clock_app_default_mhz, verdicts)


def test_event_reasons(gpus: Gpus, profile: Profile, verdicts: Verdicts) -> None:
    """Neither heat nor the power supply holds the clock of any GPU down. (F08)

    hw_slowdown, hw_thermal_slowdown and hw_power_brake_slowdown are faults at any moment, the last one of the power
    supply. sw_thermal_slowdown is bad cooling: rejected at delivery, a warning later, since hot surroundings pass.
    gpu_idle, sw_power_cap and applications_clocks_setting are normal (Azure NHC ignores the first two as well).
    """
    heat = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    for gpu in answering(gpus, verdicts):
        reasons = gpu.event_reasons
        if lacks(verdicts, gpu, "what holds the clock", reasons):
            continue
        if isinstance(reasons, Unknown):
            verdicts.unknown(part=gpu.part, quantity="what holds the clock", reason=reasons)
            continue
        _slowed(gpu, reasons & _FAULTS, Verdict.FAIL, verdicts)
        _slowed(gpu, reasons & _HEAT, heat, verdicts)
        _slowed(gpu, reasons - _FAULTS - _HEAT - _HARMLESS, Verdict.WARN, verdicts)
        if reasons <= _HARMLESS:
            held = ", ".join(sorted(reasons)) or "nothing"
            verdicts.passed(part=gpu.part, text=f"clock held by {held}")


@pytest.mark.tier("nightly")
def test_violations(gpus: Gpus, verdicts: Verdicts) -> None:
    """No GPU has been slowed by heat, by its board's limit or for reliability since the driver was loaded. (F08)

    The counters tell of slowdowns that are over by now, so they warn; OCI alerts on the last two at any increase. Time
    held by the power limit is normal under load and not judged.
    """
    for gpu in answering(gpus, verdicts):
        slowed_s = {
            "heat": gpu.thermal_violation_s,
            "its board's limit": gpu.board_limit_violation_s,
            "reliability": gpu.reliability_violation_s,
        }
        for cause, seconds in slowed_s.items():
            if not lacks(verdicts, gpu, f"time slowed for {cause}", seconds):
                verdicts.at_most(
                    part=gpu.part,
                    quantity=f"time slowed for {cause}",
                    observed=seconds,
                    limit=Limit(0.0, "s", "none on a healthy GPU"),
                    action=_COOLING,
                    otherwise=Verdict.WARN,
                )


def _slowed(gpu: Gpu, reasons: frozenset[str], verdict: Verdict, verdicts: Verdicts) -> None:
    if reasons:
        message = f"clock held down by {', '.join(sorted(reasons))}"
        verdicts.found(verdict, part=gpu.part, text=message, action=_COOLING, quantity="event reasons")


def _not_below(gpu: Gpu, which: str, clock: int | Unknown, default: int | Unknown, verdicts: Verdicts) -> None:
    what = f"{which} application clock"
    if lacks(verdicts, gpu, what, clock) or lacks(verdicts, gpu, f"default {what}", default):
        return
    verdicts.at_least(
        part=gpu.part,
        quantity=what,
        observed=clock,
        limit=default if isinstance(default, Unknown) else Limit(default, "MHz", "the board's own default"),
        action="run nvidia-smi -rac",
    )
