"""Clocks: every GPU may reach the clocks of its model, and nothing holds it down."""

import pytest

from nodegate.api import Baseline, Gpu, Gpus, Limit, LimitKind, Profile, Unknown, Verdict, Verdicts, absence
from nodegate.subjects.at_work import slow_among
from nodegate.subjects.gpu import answering

pytestmark = pytest.mark.tier("bootcheck")

_FAULTS = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
_HEAT = frozenset({"sw_thermal_slowdown"})
_HARMLESS = frozenset(
    {"gpu_idle", "sw_power_cap", "applications_clocks_setting", "sync_boost", "display_clock_setting", "reliability"}
)
_REASONS = "clock event reasons"
_CODES = {
    "hw_power_brake_slowdown": "power brake",
    "hw_thermal_slowdown": "thermal",
    "sw_thermal_slowdown": "thermal",
    "hw_slowdown": "slowdown",
    "board_limit": "board limit",
}
_POWER = "check power supplies and power cables of this node; then power-cycle it"
_COOLING = "check fans, airflow or coolant, and the seat of the heat sink; compare with the same slot of other nodes"
_BOTH = "check power supplies, power cables and cooling of this GPU; then power-cycle the node"
_ACTIONS = {"power brake": _POWER, "thermal": _COOLING}


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


def test_application(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The application clocks of every GPU are not below its own default. (F08, F09)

    A setting left behind by someone's measurement slows every later job. The default itself may be below the highest
    clock (A100-40GB: 1095 of 1410 MHz). Driver 595 dropped these settings: then only the highest clocks are judged.
    """
    for gpu in answering(gpus, verdicts):
        absent = absence("application_clocks", gpu, gpus, baseline)
        _not_below(gpu, "SM", gpu.sm_clock_app_mhz, gpu.sm_clock_app_default_mhz, absent, verdicts)
        absent = absence("application_memory_clocks", gpu, gpus, baseline)
        _not_below(gpu, "memory", gpu.memory_clock_app_mhz, gpu.memory_clock_app_default_mhz, absent, verdicts)


def test_event_reasons(gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Neither heat nor the power supply holds the clock of any GPU down. (F08)

    hw_slowdown, hw_thermal_slowdown and hw_power_brake_slowdown are faults at any moment, the last one of the power
    supply. sw_thermal_slowdown is bad cooling: rejected at delivery, a warning later, since hot surroundings pass.
    gpu_idle, sw_power_cap and applications_clocks_setting are normal (Azure NHC ignores the first two as well), so is
    the voltage limit for reliability; the board's own limit only warns. The power supply may hold a GPU down without a
    word: at work, its clock is compared with the others' at work.
    """
    heat = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    for gpu in answering(gpus, verdicts):
        reasons = gpu.event_reasons
        if isinstance(reasons, Unknown):
            verdicts.unknown(
                part=gpu.part, quantity=_REASONS, reason=reasons, absent=absence("event_reasons", gpu, gpus, baseline)
            )
            continue
        for holder in sorted(_bad(reasons)):
            verdict = Verdict.FAIL if holder in _FAULTS else heat if holder in _HEAT else Verdict.WARN
            code = _CODES.get(holder, "unknown reason")
            action, text = _ACTIONS.get(code, _BOTH), f"clock limited by {holder}"
            verdicts.found(verdict, part=gpu.part, text=text, action=action, quantity=_REASONS, code=code)
        if reasons <= _HARMLESS:
            held = ", ".join(sorted(reasons)) or "nothing"
            verdicts.passed(part=gpu.part, text=f"clock held by {held}", quantity=_REASONS)
    share = baseline.number("gpu.clock_at_work_min_percent")
    for gpu, clock, usual in slow_among(gpus, share.value):
        verdicts.at_least(
            part=gpu.part,
            quantity="SM clock at work",
            observed=clock,
            limit=Limit(usual, "MHz", f"{share.value:g} % of the others at work", kind=LimitKind.NODE),
            action=_POWER,
            code="below the others",
        )


@pytest.mark.tier("nightly")
def test_violations(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU has been slowed by heat, by its board's limit or for reliability since the driver was loaded. (F08)

    The counters also hold slowdowns that are over by now, so they warn; OCI alerts on the last two at any increase.
    Time held by the power limit is normal under load and not judged.
    """
    for gpu in answering(gpus, verdicts):
        slowed_s = (
            ("thermal", "time slowed by heat", gpu.thermal_violation_s),
            ("board limit", "time slowed by the board's limit", gpu.board_limit_violation_s),
            ("reliability", "time slowed for reliability", gpu.reliability_violation_s),
        )
        for code, quantity, seconds in slowed_s:
            verdicts.at_most(
                part=gpu.part,
                quantity=quantity,
                observed=seconds,
                limit=Limit(0.0, "s", "none on a healthy GPU"),
                action=_ACTIONS.get(code, _BOTH),
                otherwise=Verdict.WARN,
                absent=absence(f"violation_{code.replace(' ', '_')}", gpu, gpus, baseline),
                code=code,
            )


def _bad(reasons: frozenset[str]) -> frozenset[str]:
    """The reasons that are no normal work; hw_slowdown only where no other one of the hardware says which it is."""
    bad = reasons - _HARMLESS
    return bad - {"hw_slowdown"} if len(bad & _FAULTS) > 1 else bad


def _not_below(  # noqa: PLR0917 - one caller
    gpu: Gpu, which: str, clock: int | Unknown, default: int | Unknown, absent: Verdict, verdicts: Verdicts
) -> None:
    verdicts.at_least(
        part=gpu.part,
        quantity=f"{which} application clock",
        observed=clock,
        limit=default
        if isinstance(default, Unknown)
        else Limit(default, "MHz", "the board's own default", kind=LimitKind.DEVICE),
        action="run nvidia-smi -rac",
        absent=absent,
    )
