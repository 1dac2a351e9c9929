"""What only some contracts ask for: judged where a policy (or a baseline) has a limit for it, else left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Unknown, Verdict, Why, part
from nodegate.measure.burn import findings, under_load
from nodegate.metric_names import words
from nodegate.subjects import nccl_settings, pcie
from nodegate.subjects.host import judge_dma_buf
from nodegate.subjects.reported import words_of

if TYPE_CHECKING:
    from nodegate.api import Baseline, Burn, Driver, Environment, Host, Pci, Verdicts

pytestmark = pytest.mark.tier("delivery")

_LONGER = "burn again for as long as the contract asks: --burn 24h"
_OPEN_MODULE = "install the open kernel module of the driver, on Linux 5.12 or later"


def test_event_reasons(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """Under load nothing but what the contract allows limits the clock of a GPU for longer than it allows. (F08)

    Customers disagree: the power cap is normal for a GPU that burns, and some contracts allow no event reason at all.
    burn.clock_reasons finds what is a fault by any contract. A GPU that NVML calls idle is not slowed down.
    """
    most = baseline.number("contract.event_reasons_percent")
    allowed = words_of(baseline.find("contract.event_reasons_allowed"))
    for loads in burn.loads.values():
        if not any(load.under_load for load in loads):
            findings.not_measured(loads, "clock event reasons", verdicts)
        elif all("event_reasons" in load.unread for load in loads):
            reason = loads[0].unread["event_reasons"]
            verdicts.unknown(part=loads[0].part, quantity="clock event reasons", reason=reason)
        else:
            under_load.limited(loads, {*allowed, "gpu_idle"}, most, verdicts)


def test_temperature_spread(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """Under steady load no GPU is hotter than the coolest of its node by more than the contract allows. (F08)

    Uneven heat shows a blocked heat sink, a fan or a cold plate. In air the GPUs at the back run warmer, so the limit
    is the contract's.
    """
    most = baseline.number("contract.temperature_spread_c")
    middle = {loads[0].part: under_load.middle_of(loads, "temperature_c") for loads in burn.loads.values()}
    known = {each: value for each, value in middle.items() if not isinstance(value, Unknown)}
    coolest = min(known.values(), default=0.0)
    for each, value in middle.items():
        verdicts.at_most(
            part=each,
            quantity="temperature above the coolest GPU",
            observed=value if isinstance(value, Unknown) else round(value - coolest, 1),
            limit=most,
            action=under_load.COOLING,
            note=f"{value} °C, the coolest {coolest:g} °C",
        )


def test_temperature(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """Under load no GPU is hotter than the contract allows, whatever its own slowdown temperature is. (F08)

    burn.temperature holds a GPU to the margin to its slowdown; some contracts name a temperature.
    """
    most = baseline.number("contract.temperature_c")
    for loads in burn.loads.values():
        verdicts.at_most(
            part=loads[0].part,
            quantity=words("burn.temperature_c"),
            observed=under_load.most(loads, "temperature_c"),
            limit=most,
            action=under_load.COOLING,
        )


def test_burn_time(burn: Burn, baseline: Baseline, verdicts: Verdicts) -> None:
    """The GPUs were burnt for as long as the contract asks, in one burn. (F09)

    Ten minutes find a fan that stands still. What fails once a day is found by a soak of 24, 72 or 168 hours, as the
    contract says. burn.complete holds that every GPU worked for this time. A shorter burn proves nothing, and is no
    fault of the node.
    """
    least = baseline.number("contract.burn_h")
    asked = [each.asked_s for each in burn.runs]
    known = [each for each in asked if not isinstance(each, Unknown)]
    longest = round(max(known) / 3600, 4) if known else asked[0]
    if not isinstance(longest, Unknown) and longest < least.value:  # a demand on the test: nothing is known of the node
        text = f"burned for {longest:g} h, the contract asks for {least.value:g} h: {_LONGER}"
        verdicts.left_out(part=part.NODE, text=text, quantity="time of the burn", observed=longest, unit="h")
        return
    verdicts.at_least(part=part.NODE, quantity="time of the burn", observed=longest, limit=least, action=_LONGER)


def test_gpudirect(host: Host, driver: Driver, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """NICs reach GPU memory by dma-buf: nvidia_peermem alone does not do. (F32)

    nvidia_peermem is no longer developed and depends on the network driver's own build; software.gpudirect accepts
    either. Source: NCCL documentation, NCCL_DMABUF_ENABLE.
    """
    if not baseline.switch("contract.gpudirect_dma_buf").value:
        verdicts.not_demanded("no contract asks for dma-buf")
    if not pci.gpus or not pcie.rdma_nics(pci):
        verdicts.not_done("no GPU, or no RDMA NIC")
    whose = part.software("GPUDirect RDMA")
    if isinstance(driver.open_kernel_module, Unknown):
        verdicts.unknown(part=whose, quantity="type of kernel module", reason=driver.open_kernel_module)
    elif driver.open_kernel_module:
        judge_dma_buf(verdicts, host.kernel_release, why="dma-buf is asked for", action=_OPEN_MODULE)
    else:
        verdicts.found(
            Verdict.FAIL, part=whose, text="the proprietary kernel module has no dma-buf", action=_OPEN_MODULE
        )


def test_nccl_unset(environment: Environment, baseline: Baseline, verdicts: Verdicts) -> None:
    """The NCCL settings that the contract wants left to NCCL are set neither in the login nor in nccl.conf. (F26)

    An algorithm or protocol that is set for every job hides what NCCL would choose, and makes a benchmark fit one size
    of message. software.nccl_settings finds what harms by any contract.
    """
    unset = words_of(baseline.limit("contract.nccl_unset"))
    for origin, settings in nccl_settings.origins(environment).items():
        whose = part.setting(origin)
        if isinstance(settings, Unknown):
            if settings.why is not Why.MISSING:
                verdicts.unknown(part=whose, quantity="NCCL settings", reason=settings)
            continue
        for name in sorted(unset & settings.keys()):
            text, action = f"{name}={settings[name]} is set for every job", f"remove {name} from {origin}"
            verdicts.found(Verdict.FAIL, part=whose, text=text, action=action, code=name.lower())
    if not verdicts.findings:
        verdicts.passed(part=part.setting("NCCL settings"), text=f"unset: {', '.join(sorted(unset))}")
