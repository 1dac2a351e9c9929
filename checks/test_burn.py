"""The burn: every GPU works at full load without a wrong result, at full speed, cool and well supplied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nodegate.api import CannotMeasure, Limit, Profile, Unknown, Verdict, Why, part
from nodegate.measure.burn import findings, power, under_load
from nodegate.measure.own_program import facts_by_index
from nodegate.metric import DIGITS
from nodegate.metric_names import words
from nodegate.numbers import metric_findings
from nodegate.numbers.comparison import Margins
from nodegate.subjects.counters import allowed, whole
from nodegate.subjects.gpu import memory_limit_c

if TYPE_CHECKING:
    from nodegate.api import Baseline, Burn, Gpus, NodePeers, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_SLOW = "compare clock, power and heat with a good GPU; reseat or replace the board"
_NOT_SEEN = Unknown(Why.FAILED, "the probe did not see it")


def test_complete(burn: Burn, gpus: Gpus, verdicts: Verdicts) -> None:
    """Every GPU took part in the burn from start to end, with every type of numbers, and was watched. (F01, F02)

    A GPU that did not run is not healthy, whatever a tool lists. One that stops under a program which is known to be
    good is itself at fault. Source: gpu_burn lists GPUs that never ran as OK.
    """
    for document in burn.runs:
        for load in document.gpus:
            findings.took_part(load, document, verdicts)
    burnt = {id(gpu) for gpu in facts_by_index(gpus, burn.loads).values()}
    for gpu in gpus.devices:
        if id(gpu) not in burnt:
            verdicts.found(Verdict.ERROR, part=gpu.part, text="took no part in the burn", action=findings.AGAIN)
    for why in burn.failed:
        verdicts.unknown(part=part.tool("burn"), quantity="one attempt", reason=why.reason, action=why.next_step)


def test_results(burn: Burn, verdicts: Verdicts) -> None:
    """No GPU computes a wrong result: all equal its first, the first is right, and equal on all GPUs alike. (F03)

    Silent data corruption spoils a training without any message. The same operands must give the same bits each time
    on each GPU of a model; elements of the first result are also computed by the controller's processor. Where only
    cuBLAS's bits differ between GPUs, and those of nodegate's own kernels do not, it is an error, not yet a fault. A
    clean burn is no proof: short tests miss more than half of such faults.
    """
    for document in burn.runs:
        findings.judge_results(document, verdicts)


def test_throughput(burn: Burn, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Every GPU multiplies matrices at the rate of its platform and of the fleet, in every type of numbers. (F08, F09)

    The slowest GPU sets the pace of the whole job. The rate is of 8192 x 8192 matrices after the warm-up, the time of
    comparing left out.
    """
    for loads in burn.loads.values():
        asked = [dtype for dtype in burn.dtypes if not any(dtype in load.left_out for load in loads)]
        missing = [dtype for dtype in asked if not any(findings.has_rate(load, dtype) for load in loads)]
        if missing:
            findings.not_measured(loads, f"{', '.join(missing)} rate", verdicts)
    metric_findings.judge(verdicts, burn.rates(), baseline=baseline, peers=peers, remedy=_SLOW)


def test_node_spread(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU is slower than the GPUs of its node by more than the limit. (F09)

    Within a node everything but the GPU and its slot is the same. It only warns: chips differ by a few percent under
    the same power, and burn.throughput holds each to its platform and fleet.
    """
    spread = baseline.number("burn.node_spread_percent")
    kept = Limit(100 - spread.value, "%", spread.source)
    rates = burn.rates()
    if not rates:
        verdicts.cannot("no GPU reported a rate", next_step=findings.AGAIN)
    medians = under_load.node_medians(rates)
    for metric in rates:
        limit = under_load.part_of_median(metric, medians.get(metric.key), kept)
        if limit is None:
            text = f"fewer than {findings.FEWEST_ALIKE} GPUs of its model to compare its {words(metric.name)} with"
            verdicts.found(Verdict.NOT_JUDGED, part=part.named(metric.device), text=text, quantity=words(metric.name))
            continue
        verdicts.at_least(
            part=part.named(metric.device),
            quantity=words(metric.name),
            observed=round(metric.judged, DIGITS),
            limit=limit,
            action=_SLOW,
            otherwise=Verdict.WARN,
        )


def test_clock_reasons(burn: Burn, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Under load neither the power supply nor heat holds the clock of any GPU down. (F08)

    hw_slowdown and hw_thermal_slowdown are faults: such a GPU falls from 2 GHz to 500 MHz. sw_thermal_slowdown is bad
    cooling: rejected at delivery, a warning later. A few samples of these only warn (fewer than three, or within
    burn.slow_samples_percent); a power brake is a fault in any. NVML's own counters of slow time are asked too
    (burn.slowed_s). The software power cap is normal for a GPU that burns, and so is the voltage limit for
    reliability; the board's own limit warns. One that NVML calls idle did not burn. Source: NVML; Azure NHC.
    """
    heat = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    few, short = baseline.number("burn.slow_samples_percent"), baseline.number("burn.slowed_s")
    for loads in burn.loads.values():
        whose = loads[0].part
        if not any(load.under_load for load in loads):
            findings.not_measured(loads, "clock event reasons", verdicts)
            continue
        if all("event_reasons" in load.unread for load in loads):
            unread = loads[0].unread["event_reasons"]
            verdicts.unknown(part=whose, quantity="clock event reasons", reason=unread, absent=Verdict.SKIP)
            continue
        reasons = under_load.reasons_of(loads)
        strange = sorted(reasons.keys() - under_load.WORDS.keys())
        brief = under_load.brief(loads, few)
        faults = [name for name in under_load.FAULTS if name not in brief]
        under_load.held_down(whose, reasons, faults, Verdict.FAIL, verdicts)
        under_load.held_down(whose, reasons, [name for name in under_load.HEAT if name not in brief], heat, verdicts)
        under_load.held_down(whose, reasons, [*brief, *under_load.BOARD, *strange], Verdict.WARN, verdicts)
        under_load.slowed(whose, loads, short, few, heat, verdicts)
        if under_load.idled(whose, reasons, verdicts):
            continue
        if reasons.keys() <= under_load.NORMAL.keys():
            held = under_load.shares(reasons, reasons)
            verdicts.passed(part=whose, text=f"clock held by {held}" if held else "nothing limits the clock")


def test_clock(burn: Burn, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Under load the SM clock of every GPU is near that of the GPUs like it, in its node and in the fleet. (F08)

    The median clock is taken once the GPU has warmed up. A node whose power is short has all its GPUs slow, so the
    fleet is asked too. Source of the part that is allowed: burn.clock_share_percent.
    """
    share, margins = baseline.number("burn.clock_share_percent"), Margins.of(baseline)
    clocks = {metric.device: metric for metric in burn.named("burn.sm_clock_mhz")}
    medians = under_load.node_medians(clocks.values())
    for loads in burn.loads.values():
        load = loads[0]
        metric = clocks.get(load.device)
        if metric is None:
            under_load.no_clock(loads, verdicts)
            continue
        limits = (
            under_load.part_of_median(metric, medians.get(metric.key), share),
            under_load.part_of_fleet(metric, peers, margins, share),
        )
        under_load.clock(loads, metric, [limit for limit in limits if limit is not None], verdicts)


def test_temperature(burn: Burn, gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Under load every GPU stays below the temperature at which it slows down, with a margin. (F08)

    The threshold is the device's own word: its slowdown temperature, or the margin (T.Limit) that it stated when it was
    cool. Rejected at delivery; later it warns, for surroundings may be hot for a day.
    """
    limit = baseline.number("burn.temperature_margin_c")
    known = facts_by_index(gpus, burn.loads)
    for index, loads in burn.loads.items():
        hottest = under_load.most(loads, "temperature_c")
        threshold = under_load.slowdown_c(known[index]) if index in known else _NOT_SEEN
        if isinstance(hottest, Unknown):
            under_load.not_read(loads, words("burn.temperature_c"), hottest, verdicts)
        elif isinstance(threshold, Unknown):
            under_load.not_read(loads, "slowdown temperature", threshold, verdicts)
        else:
            otherwise = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
            under_load.heat(loads[0], hottest, threshold, margin=limit, otherwise=otherwise, verdicts=verdicts)


def test_memory_temperature(burn: Burn, gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Under load the memory of every GPU stays below what its board allows, with a margin. (F08)

    HBM has a limit of its own; a bad mount or paste shows here first. Above it a GPU is rejected at delivery; later,
    and with little left, it warns. Boards without HBM report none. Source: burn.memory_temperature_margin_c.
    """
    margin, usual = baseline.number("burn.memory_temperature_margin_c"), baseline.number("gpu.memory_temperature_max_c")
    known = facts_by_index(gpus, burn.loads)
    for index, loads in burn.loads.items():
        hottest = under_load.most(loads, "memory_temperature_c")
        if isinstance(hottest, Unknown):
            under_load.not_read(loads, "memory temperature", hottest, verdicts)
            continue
        limit = memory_limit_c(known[index], usual) if index in known else usual
        over = hottest > limit.value
        verdicts.at_most(
            part=loads[0].part,
            quantity="memory temperature under load",
            observed=hottest,
            limit=replace(limit, value=limit.value - margin.value),
            action=under_load.COOLING,
            otherwise=Verdict.FAIL if over and profile is Profile.DELIVERY else Verdict.WARN,
            note=f"{abs(limit.value - hottest):g} °C {'above' if over else 'left to'} the limit of {limit.value:g} °C",
        )


@pytest.mark.tier("delivery")
def test_power(burn: Burn, gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every GPU drew in the heaviest part of the burn about as much power as it may: the burn was a burn. (F08)

    A GPU that works at half of its power is not hot, and its cooling and supply are not proven by it. A board that is
    capped is held to its cap: power.limit judges that. It only warns, and the claim `burned` stays open. What no
    sensor reads is unknown. Source: burn.power_percent, burn.power_own_kernels_percent.
    """
    for loads in burn.loads.values():
        power.judged(loads, burn, gpus, baseline, verdicts)


def test_ecc(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU meets a memory error under load that it cannot correct, and few that it can. (F03)

    An uncorrectable error kills the job that meets it. Corrected ones are the normal work of ECC; very many within one
    burn warn of a dying memory.
    """
    per_hour = baseline.number("counters.ecc_corrected_per_h")
    for loads in burn.loads.values():
        for load in loads:
            for kind, limit, verdict in (
                ("uncorrected", Limit(0, "", "none on a healthy GPU"), Verdict.FAIL),
                ("corrected", allowed(per_hour, load.watched_s), Verdict.WARN),
            ):
                verdicts.at_most(
                    part=load.part,
                    quantity=f"{kind} memory errors during the burn",
                    observed=whole(load.growth(f"ecc_{kind}")),
                    limit=limit,
                    action=findings.REPLACE,
                    otherwise=verdict,
                    absent=Verdict.SKIP,
                    code=kind,
                )


def test_link(burn: Burn, gpus: Gpus, verdicts: Verdicts) -> None:
    """Under load the PCIe link of every GPU runs at the speed that device and slot have, and loses no lanes. (F05)

    An idle GPU lowers its link to save power, so its speed can only be judged at work. A link that is too narrow from
    the start is found by pcie.link_width.
    """
    known = facts_by_index(gpus, burn.loads)
    for index, loads in burn.loads.items():
        for load in loads:
            if index not in known:
                verdicts.unknown(part=load.part, quantity="PCIe link", reason=_NOT_SEEN)
                continue
            gpu = known[index]
            under_load.link(load, "link_gen", "PCIe generation under load", gpu.link_gen_max, verdicts)
            under_load.link(load, "link_width", "PCIe link width under load", gpu.link_width, verdicts)


def test_gpu_burn(burn: Burn, verdicts: Verdicts) -> None:
    """Where the program gpu_burn is installed, it finds no wrong result either, and every GPU works in it. (F01, F03)

    A second opinion by other code, on tensor cores and in plain FP32. Its own OK is not believed: it exits with 0
    whatever it finds, and lists GPUs that never ran as OK. It runs in burns of five minutes and more.
    """
    if not burn.others:
        verdicts.not_done("gpu_burn was not run: it is not installed, or the burn is shorter than 5 min")
    for other in burn.others:
        whose, what = part.tool("gpu_burn"), f"result ({other.mode})"
        if isinstance(other.found, CannotMeasure):
            verdicts.unknown(part=whose, quantity=what, reason=other.found.reason, action=other.found.next_step)
            continue
        if other.found.listed > len(other.found.gpus) > 1:
            reason = f"it used {len(other.found.gpus)} of {other.found.listed} GPUs and does not report which"
            verdicts.unknown(part=whose, quantity=what, reason=reason, action=findings.AGAIN)
        for gpu in other.found.gpus:
            findings.second_opinion(part.gpu(gpu.index), other.mode, gpu, other.found, verdicts)
