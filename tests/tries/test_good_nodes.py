"""Good nodes: what was rejected or drained without need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fleet.machine import Machine
from support.judging import judge_one
from support.tries import tried

from nodegate.profile import Profile
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.finding import Record

BOTH = pytest.mark.parametrize("profile", [Profile.BOOTCHECK, Profile.DELIVERY])


def said_of_a_slot(profile: Profile, address: str) -> Record:
    """What the check says of a slot that lost its device an hour ago."""
    machine = Machine.hgx_h100()
    machine.kernel(f"pcieport {address}: pciehp: Slot(12): Link Down", ago_s=3600.0)
    machine.kernel(f"pcieport {address}: pciehp: Slot(12): Card not present", ago_s=3600.0)
    return judge_one("kernel_log.pcie_errors", machine, profile=profile)


@BOTH
@tried(
    "an NVMe disk is changed while the node runs, or an empty slot is looked at during the start",
    before="`kernel_log.pcie_errors` fails: the node is drained until its next reboot",
    now="a warning, where no GPU, NVSwitch or NIC is below the slot",
)
def test_a_disk_that_is_changed_rejects_no_node(profile: Profile) -> None:
    record = said_of_a_slot(profile, "0000:f0:01.0")
    assert record.verdict is Verdict.WARN
    assert "no GPU, NVSwitch or NIC is below this slot" in record.message


@BOTH
def test_the_slot_of_a_gpu_still_counts(profile: Profile) -> None:
    machine = Machine.hgx_h100()
    above = next(each["parent"] for each in machine.sections["pci"] if each["address"] == machine.gpu_address(3))
    assert said_of_a_slot(profile, above).verdict is Verdict.FAIL


@BOTH
@tried(
    "a node of RHEL 8 or Rocky 8 (Linux 4.18)",
    before="`host.kernel_version` fails: the hooks drain the whole cluster",
    now="a warning, as in the source of the limit",
)
def test_an_old_kernel_of_a_distribution_warns(profile: Profile) -> None:
    machine = Machine.hgx_h100()
    machine.set("system", "kernel_release", "4.18.0-553.el8_10.x86_64")
    assert judge_one("host.kernel_version", machine, profile=profile).verdict is Verdict.WARN


@BOTH
@tried(
    "a node without systemd, persistence mode on",
    before="`software.persistence_daemon` is an error: the node is never accepted",
    now="passes by what NVML says; without persistence mode it stays an error",
)
def test_without_systemd_nvml_says_whether_persistence_mode_is_on(profile: Profile) -> None:
    machine = Machine.hgx_h100()
    machine.units.clear()
    assert judge_one("software.persistence_daemon", machine, profile=profile).verdict is Verdict.PASS
    machine.set_gpu(3, "persistence_mode", 0)
    assert judge_one("software.persistence_daemon", machine, profile=profile).verdict is Verdict.ERROR
