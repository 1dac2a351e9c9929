"""GSP firmware: on or off as the site wants, the same everywhere, and of the driver's own version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Unknown, part
from nodegate.subjects.gpu import answering, gsp_by_driver, gsp_state, usual_gsp

if TYPE_CHECKING:
    from nodegate.api import Baseline, Driver, Fleet, Gpus, Node, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_SET = "set NVreg_EnableGpuFirmware in the driver's module options to the value of the other nodes, then reboot"


def test_state(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """GSP firmware is on or off as the site wants, and alike on every GPU of the node. (F04)

    Sites that met GSP timeouts (Xid 119, 120) run it off; mixed nodes fail in ways nobody can repeat. Where the site
    wants nothing, the node's own majority is what is expected.
    """
    answers = answering(gpus, verdicts)
    policy = baseline.find("gpu.gsp")
    usual = usual_gsp(gsp_state(gpu) for gpu in answers)
    for gpu in answers:
        verdicts.equal(
            part=gpu.part,
            quantity="GSP firmware",
            observed=gsp_state(gpu),
            expected=policy or usual,
            source="" if policy else "most GPUs of this node",
            action=_SET,
        )


def test_agreement(gpus: Gpus, driver: Driver, verdicts: Verdicts) -> None:
    """NVML and /proc/driver/nvidia say the same of every GPU's GSP firmware. (F04)

    When they do not, one of them is stale: the setting was changed and the driver not loaded again.
    """
    if isinstance(driver.gpus, Unknown):
        reason = f"could not read /proc/driver/nvidia/gpus: {driver.gpus}"
        verdicts.cannot(reason, next_step="see the findings of gpu.bound", blocked_by="gpu.bound")
    by_address = {entry.address: gsp_by_driver(entry) for entry in driver.gpus}
    for gpu in answering(gpus, verdicts):
        by_driver = by_address.get(gpu.address) if isinstance(gpu.address, str) else None
        if by_driver is None:
            verdicts.lacking(part=gpu.part, text="the driver's file does not report GSP firmware")
            continue
        verdicts.equal(
            part=gpu.part,
            quantity="GSP firmware by NVML",
            observed=gsp_state(gpu),
            expected=by_driver,
            source="/proc/driver/nvidia/gpus",
            action="reload the driver or reboot, then read both again",
        )


def test_version(gpus: Gpus, verdicts: Verdicts) -> None:
    """The GSP firmware that runs is of the driver's own version. (F04, F32)

    Firmware left over from another driver is the first suspect when GSP calls time out.
    """
    version = gpus.driver_version
    for gpu in answering(gpus, verdicts):
        if gsp_state(gpu) == "off":
            witness = "gsp.state: it judges whether that is right"
            verdicts.lacking(part=gpu.part, text="GSP firmware is off", witness=witness)
            continue
        verdicts.equal(
            part=gpu.part,
            quantity="GSP firmware version",
            observed=gpu.gsp_firmware,
            expected=version if isinstance(version, Unknown) else version.partition(" ")[0],
            source="the driver's version",
            action="install driver and firmware from one package, then reboot",
        )


@pytest.mark.tier("nightly")
def test_fleet(node: Node, fleet: Fleet, verdicts: Verdicts) -> None:
    """GSP firmware is as on most nodes of the platform. (F04, F33)

    On some nodes on and on others off, GSP faults come and go with the placement of the job. A warning: which of the
    two is right is the site's choice.
    """
    name, firmware = "GSP firmware", part.software("GSP firmware")
    odd = next((each for each in fleet.compare(node.name) if each.characteristic == name), None)
    if odd is not None:
        verdicts.add(odd.finding(firmware, action=_SET))
    elif name in fleet.agreeing(node.name):
        verdicts.passed(part=firmware, text="as on most nodes of the platform")
    else:
        verdicts.not_done("GSP firmware is not reported by this node, or by too few nodes of its platform")
