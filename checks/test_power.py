"""Power and heat: no GPU is held below its power, none is near the temperature at which it slows down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, LimitKind, NumberLimit, Profile, Unknown, Verdict, absence, part
from nodegate.subjects.at_work import waiting
from nodegate.subjects.gpu import answering, margin_c, memory_limit_c

if TYPE_CHECKING:
    from nodegate.api import Baseline, Gpus, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_COOLING = "check fans, airflow or coolant, and the seat of the heat sink; compare with the same slot of other nodes"


def test_limit(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The power limit of every GPU is at least the platform's, or the board's own default where none is given. (F08)

    A lowered limit costs clock as soon as the GPU works, and nothing shows it while idle. A site that caps power on
    purpose says so in its baseline.
    """
    platform = baseline.find_number("gpu.power_limit_w")
    for gpu in answering(gpus, verdicts):
        verdicts.at_least(
            part=gpu.part,
            quantity="power limit",
            observed=gpu.power_limit_w,
            limit=platform or _limit_w(gpu.power_limit_default_w, "the board's own default"),
            action=f"run nvidia-smi -i {gpu.index} -pl with the limit that is right here, and find who lowered it",
            absent=absence("power_limit", gpu, gpus, baseline),
        )


def test_enforced(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The power limit in force on every GPU is the one that is set. (F08)

    A lower one in force is imposed from outside: the chassis, its power supplies or the BMC hold the GPU down.
    """
    for gpu in answering(gpus, verdicts):
        verdicts.at_least(
            part=gpu.part,
            quantity="power limit in force",
            observed=gpu.power_limit_enforced_w,
            limit=_limit_w(gpu.power_limit_w, "the limit that is set"),
            action="check power supplies, power cables and the BMC's power cap",
            absent=absence("power_limit_enforced", gpu, gpus, baseline),
        )


def test_draw(gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Every GPU draws a power that its board can draw. (F08)

    A sensor that reads nothing, or more than the board's power stage gives, holds the clock down or lets the board run
    hot. It warns: the reading is wrong, and not yet the GPU. Source: NVIDIA Health Validation, gpu_average_power_draw.
    Under troubleshoot it warns too of GPUs that are busy at a power near idle: so they wait in a hanging collective.
    """
    if profile is Profile.TROUBLESHOOT:
        _hang(gpus, baseline, verdicts)
    least, share = baseline.find_number("gpu.power_draw_min_w"), baseline.number("gpu.power_draw_max_percent")
    step = "read it again with nvidia-smi -q -d POWER; if it stays, power-cycle the node, then call the vendor"
    for gpu in answering(gpus, verdicts):
        high, source = gpu.power_limit_max_w, f"{share.value:g} % of the board's highest limit; {share.source}"
        most = (
            high if isinstance(high, Unknown) else Limit(high * share.value / 100, "W", source, kind=LimitKind.DEVICE)
        )
        low = least is not None and not isinstance(gpu.power_w, Unknown) and gpu.power_w < least.value
        (verdicts.at_least if low else verdicts.at_most)(
            part=gpu.part,
            quantity="power draw",
            observed=gpu.power_w,
            limit=least if low else most,
            action=step,
            otherwise=Verdict.WARN,
            absent=absence("power_draw", gpu, gpus, baseline),
        )


def _hang(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    hang = waiting(gpus, baseline.number("gpu.power_hang_max_percent").value)
    if hang is None:
        return
    verdicts.found(
        Verdict.WARN,
        part=part.host("collective"),
        text=f"the running job seems to hang in a collective: {hang.words}",
        action="see which rank did not arrive: py-spy dump of each rank, then nodegate triage of all ranks' logs",
        code="hang",
    )


def test_temperature(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every GPU is well below the temperature at which it slows down. (F08)

    The distance is the device's own (T.Limit; slowdown temperature less the present one before Hopper). Past it is a
    fail: cooling is broken. Little left only warns, for a GPU is still warm seconds after a job.
    """
    limit = baseline.number("gpu.temperature_margin_min_c")
    for gpu in answering(gpus, verdicts):
        margin, now = margin_c(gpu), gpu.temperature_c
        if isinstance(now, Unknown) and now is not margin and not now.is_absent:
            verdicts.unknown(part=gpu.part, quantity="temperature", reason=now)
        above = 0 if isinstance(margin, Unknown) else max(-margin, 0)
        verdicts.at_least(
            part=gpu.part,
            quantity="margin to slowdown",
            observed=margin,
            limit=limit,
            action=_COOLING,
            otherwise=Verdict.FAIL if above else Verdict.WARN,
            absent=absence("margin_to_slowdown", gpu, gpus, baseline),
            note=f"{above} °C above the slowdown limit" if above else "",
        )


def test_memory_temperature(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The memory of every GPU is not hotter than its board allows. (F08)

    HBM has a limit of its own, and the margin of the chip does not show it: too hot, it makes errors and ages. Boards
    without HBM report no temperature of it. Source: the board's own limit (NVML); gpu.memory_temperature_max_c.
    """
    usual = baseline.number("gpu.memory_temperature_max_c")
    for gpu in answering(gpus, verdicts):
        verdicts.at_most(
            part=gpu.part,
            quantity="memory temperature",
            observed=gpu.memory_temperature_c,
            limit=memory_limit_c(gpu, usual),
            action=_COOLING,
            absent=absence("memory_temperature", gpu, gpus, baseline),
        )


def _limit_w(reading: float | Unknown, source: str) -> NumberLimit | Unknown:
    return reading if isinstance(reading, Unknown) else Limit(reading, "W", source, kind=LimitKind.DEVICE)
