"""The burn: every GPU works at full load without a wrong result, at full speed, cool and well supplied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate import part
from nodegate.errors import CannotMeasure
from nodegate.finding import Limit
from nodegate.measure.burn import findings
from nodegate.numbers import metric_findings
from nodegate.numbers.margins import Margins
from nodegate.profile import Profile
from nodegate.subjects.counters import allowed, none_allowed, whole
from nodegate.unknown import Unknown, Why
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.measure.burn.run import Burn
    from nodegate.numbers.peers import NodePeers
    from nodegate.probe.gpu import Gpus

pytestmark = pytest.mark.tier("bootcheck")

_SLOW = "compare clock, power and heat with a good GPU; reseat or replace the board"
NOT_SEEN = Unknown(Why.FAILED, "the probe did not see it")
_COOLING = "check fans, air flow, heat sink and inlet temperature"


def test_complete(gpu_burn: Burn, gpus: Gpus, verdicts: Verdicts) -> None:
    """Every GPU took part in the burn from start to end, with every type of numbers, and was watched. (F01, F02)

    A GPU that did not run is not healthy, whatever a tool lists. One that stops under a program which is known to be
    good is itself at fault. Source: gpu_burn lists GPUs that never ran as OK.
    """
    for document in gpu_burn.runs:
        for load in document.gpus:
            findings.took_part(load, document, verdicts)
    burnt = {id(gpu) for gpu in findings.facts_by_index(gpus, gpu_burn).values()}
    for gpu in gpus.devices:
        if id(gpu) not in burnt:
            remedy = findings.AGAIN
            verdicts.unknown(part=gpu.part, quantity="its part in the burn", reason="it took none", action=remedy)
    for why in gpu_burn.failed:
        verdicts.unknown(
            part=part.tool("burn"), quantity="one of the attempts", reason=why.reason, action=why.next_step
        )


def test_results(gpu_burn: Burn, verdicts: Verdicts) -> None:
    """No GPU computes a wrong result: all equal its first, the first is right, and equal on all GPUs alike. (F03)

    Silent data corruption spoils a training without any message. The same operands must give the same bits each time
    on each GPU of a model; elements of the first result are also computed by the controller's processor. A clean burn
    is no proof: short tests miss more than half of such faults.
    """
    for document in gpu_burn.runs:
        odd = findings.odd_results(document)
        for each in odd:
            whose = f"differs from that of {', '.join(each.others)}"
            doubt = "" if each.outvoted else ", and nobody can say which is right"
            message = f"its {each.phase.dtype} result {each.phase.checksum} {whose}{doubt}"
            findings.wrong(each.load, message, "results that differ between GPUs", 1, verdicts)
        differ = {each.load.index for each in odd}
        for load in document.gpus:
            findings.results(load, document, verdicts, differ=load.index in differ)


def test_throughput(gpu_burn: Burn, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Every GPU multiplies matrices at the rate of its platform and of the fleet, in every type of numbers. (F08, F09)

    The slowest GPU sets the pace of the whole job. The rate is of 8192 x 8192 matrices after the warm-up, the time of
    comparing left out.
    """
    for index, loads in gpu_burn.loads.items():
        missing = [dtype for dtype in gpu_burn.dtypes if not any(findings.has_rate(load, dtype) for load in loads)]
        if missing:
            verdicts.unknown(
                part=part.gpu(index),
                quantity=f"rate in {', '.join(missing)}",
                reason=findings.why(loads),
                action=findings.AGAIN,
            )
    metric_findings.judge(verdicts, gpu_burn.rates(), baseline=baseline, peers=peers, remedy=_SLOW)


def test_node_spread(gpu_burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU is slower than the GPUs of its node by more than the limit. (F09)

    Within a node everything but the GPU and its slot is the same. It only warns: chips differ by a few percent under
    the same power, and burn.throughput holds each to its platform and fleet.
    """
    limit = baseline.number("burn.node_spread_percent")
    rates = gpu_burn.rates()
    if not rates:
        verdicts.cannot("no GPU gave a rate", next_step=findings.AGAIN)
    medians = findings.node_medians(rates)
    kept = 100 - limit.value if isinstance(limit.value, (int, float)) else 100
    for metric in rates:
        verdicts.at_least(
            part=part.named(metric.device),
            quantity=metric_findings.label(metric.name),
            observed=round(metric.best, 3),
            limit=findings.part_of_median(metric, medians.get(metric.key), Limit(kept, "%", limit.source)),
            action=_SLOW,
            otherwise=Verdict.WARN,
        )


def test_clock_reasons(gpu_burn: Burn, profile: Profile, verdicts: Verdicts) -> None:
    """Under load neither the power supply nor heat holds the clock of any GPU down. (F08)

    hw_slowdown, hw_thermal_slowdown and hw_power_brake_slowdown are faults in any sample: such a GPU falls from 2 GHz
    to 500 MHz. sw_thermal_slowdown is bad cooling: rejected at delivery, a warning later. The software power cap is
    normal for a GPU that burns. Source: NVML; Azure NHC.
    """
    heat = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    for loads in gpu_burn.loads.values():
        whose = loads[0].part
        if not any(load.under_load for load in loads):
            verdicts.unknown(
                part=whose, quantity="what holds the clock", reason=findings.why(loads), action=findings.AGAIN
            )
            continue
        if all("event_reasons" in load.unread for load in loads):
            findings.lacks(whose, "what holds the clock", loads[0].unread["event_reasons"], verdicts)
            continue
        reasons = findings.reasons_of(loads)
        strange = reasons.keys() - findings.WORDS.keys()
        findings.held_down(whose, reasons, findings.FAULTS, Verdict.FAIL, verdicts)
        findings.held_down(whose, reasons, findings.HEAT, heat, verdicts)
        findings.held_down(whose, reasons, dict.fromkeys(strange, ""), Verdict.WARN, verdicts)
        findings.slowed(whose, loads, verdicts)
        if reasons.keys() <= findings.NORMAL.keys():
            held = findings.shares(reasons, reasons) or "nothing"
            verdicts.passed(part=whose, text=f"clock held by {held}")


def test_clock(gpu_burn: Burn, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Under load the SM clock of every GPU is near that of the GPUs like it, in its node and in the fleet. (F08)

    The median clock is taken once the GPU has warmed up. A node whose power is short has all its GPUs slow, so the
    fleet is asked too. Source of the part that is allowed: burn.clock_share_percent.
    """
    part, margins = baseline.number("burn.clock_share_percent"), Margins.of(baseline)
    clocks = {metric.device: metric for metric in gpu_burn.named("burn.sm_clock_mhz")}
    medians = findings.node_medians(clocks.values())
    for loads in gpu_burn.loads.values():
        load = loads[0]
        metric = clocks.get(load.device)
        if metric is None:
            findings.lacks(load.part, "SM clock under load", load.middle("sm_clock_mhz"), verdicts)
            continue
        held = findings.shares(found := findings.reasons_of(loads), found)
        for limit in (
            findings.part_of_median(metric, medians.get(metric.key), part),
            findings.part_of_fleet(metric, peers, margins, part),
        ):
            verdicts.at_least(
                part=load.part,
                quantity="SM clock under load",
                observed=metric.best,
                limit=limit,
                action=f"held by {held}; {findings.POWER}" if held else f"no reason is told; {findings.POWER}",
            )


def test_temperature(gpu_burn: Burn, gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """Under load every GPU stays below the temperature at which it slows down, with a margin. (F08)

    The threshold is the device's own word: its slowdown temperature, or the margin (T.Limit) that it stated when it was
    cool. Rejected at delivery; later it warns, for surroundings may be hot for a day.
    """
    limit = baseline.number("burn.temperature_margin_c")
    known = findings.facts_by_index(gpus, gpu_burn)
    for index, loads in gpu_burn.loads.items():
        hottest = findings.most(loads, "temperature_c")
        threshold = findings.slowdown_c(known[index]) if index in known else NOT_SEEN
        if isinstance(threshold, Unknown) or isinstance(hottest, Unknown):
            reading = hottest if isinstance(hottest, Unknown) else threshold
            findings.lacks(loads[0].part, "margin to its slowdown temperature", reading, verdicts)
            continue
        verdicts.at_least(
            part=loads[0].part,
            quantity=f"at {hottest:.0f} °C under load its margin to the slowdown",
            observed=round(threshold - hottest, 1),
            limit=limit,
            action=_COOLING,
            otherwise=Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN,
        )


def test_ecc(gpu_burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU meets a memory error under load that it cannot correct, and few that it can. (F03)

    An uncorrectable error kills the job that meets it. Corrected ones are the normal work of ECC; very many within one
    burn warn of a dying memory.
    """
    per_hour = baseline.number("counters.ecc_corrected_per_h")
    for loads in gpu_burn.loads.values():
        for load in loads:
            for counter, limit, verdict in (
                ("ecc_uncorrected", none_allowed("none on a healthy GPU"), Verdict.FAIL),
                ("ecc_corrected", allowed(per_hour, load.watched_s), Verdict.WARN),
            ):
                what = counter.replace("ecc_", "") + " memory errors during the burn"
                growth = whole(load.growth(counter))
                if isinstance(growth, Unknown):
                    findings.lacks(load.part, what, growth, verdicts)
                else:
                    verdicts.at_most(
                        part=load.part,
                        quantity=what,
                        observed=growth,
                        limit=limit,
                        action=findings.REPLACE,
                        otherwise=verdict,
                    )


def test_link(gpu_burn: Burn, gpus: Gpus, verdicts: Verdicts) -> None:
    """Under load the PCIe link of every GPU runs at the speed that device and slot have, and loses no lanes. (F05)

    An idle GPU lowers its link to save power, so its speed can only be judged at work. A link that is too narrow from
    the start is found by pcie.link_width.
    """
    known = findings.facts_by_index(gpus, gpu_burn)
    for index, loads in gpu_burn.loads.items():
        for load in loads:
            if index not in known:
                verdicts.unknown(part=load.part, quantity="PCIe link", reason=NOT_SEEN)
                continue
            gpu = known[index]
            findings.link(load, "link_gen", "PCIe generation under load", gpu.link_gen_max, verdicts)
            findings.link(load, "link_width", "PCIe lanes under load", gpu.link_width, verdicts)


def test_gpu_burn(gpu_burn: Burn, verdicts: Verdicts) -> None:
    """Where the program gpu_burn is installed, it finds no wrong result either, and every GPU works in it. (F01, F03)

    A second opinion by other code, on tensor cores and in plain FP32. Its own OK is not believed: it exits with 0
    whatever it finds, and lists GPUs that never ran as OK. It runs in burns of five minutes and more.
    """
    if not gpu_burn.others:
        verdicts.skip("gpu_burn was not run: it is not installed here, or the burn is shorter than 5 min")
    for other in gpu_burn.others:
        whose = part.tool(f"gpu_burn, {other.mode}")
        if isinstance(other.found, CannotMeasure):
            verdicts.unknown(part=whose, quantity="its result", reason=other.found.reason, action=other.found.next_step)
            continue
        if other.found.listed > len(other.found.gpus) > 1:
            reason = f"it used {len(other.found.gpus)} of {other.found.listed} GPUs, and does not say which"
            verdicts.unknown(part=whose, quantity="the part of some GPUs", reason=reason, action=findings.AGAIN)
        for gpu in other.found.gpus:
            findings.second_opinion(part.gpu(gpu.index), other.mode, gpu, other.found, verdicts)
