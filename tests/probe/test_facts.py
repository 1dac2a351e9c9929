"""The registry of facts: a section that says why it has no data becomes CannotMeasure with a step to take."""

import pytest
from fleet.machine import Machine, facts_of
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.facts import FACTS
from nodegate.node_side.probe.main import SECTIONS

# The one is known too where NVML itself fails; the other where its section is not there.
NAMES = tuple(sorted(FACTS.keys() - {"nvml_library", "storage"}))


def test_the_facts_need_the_sections_that_the_probe_sends_and_no_others():
    needed = {section for fact in FACTS.values() for section in fact.sections}
    assert needed == {*SECTIONS, "nvidia_smi"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("why", ["missing", "denied", "timeout", "hung", "failed", "not supported", "lost"])
def test_a_section_without_data_says_why_and_what_to_do(name, why):
    machine = Machine.hgx_h100()
    for section in FACTS[name].sections:
        machine.section_fails(section, why, "the detail")
    if (name, why) == ("rdma", "missing"):
        assert facts_of(machine).rdma.devices == ()  # no /sys/class/infiniband: no adapters, which is known
        return
    with pytest.raises(CannotMeasure, match=f"{why}: the detail") as stopped:
        facts_of(machine).get(name)
    assert stopped.value.next_step


@pytest.mark.parametrize(
    ("section", "why", "step"),
    [
        ("nvml", "missing", "install the NVIDIA driver"),
        ("nvml", "timeout", "read the kernel log"),
        ("kernel_log", "denied", "ansible_become"),
        ("limits", "denied", "ansible_become"),
        ("mounts", "hung", "check the file servers"),
    ],
)
def test_the_step_fits_the_section_and_the_reason(section, why, step):
    machine = Machine.hgx_h100()
    machine.section_fails(section, why)
    name = {"nvml": "gpus"}.get(section, section)
    with pytest.raises(CannotMeasure) as stopped:
        facts_of(machine).get(name)
    assert step in stopped.value.next_step


def test_nvidia_smi_stands_in_for_a_failed_nvml():
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "failed", "NVML 18: Driver/library version mismatch")
    machine.sections["nvidia_smi"] = {"q": recording("nvidia_smi", "q-550.xml"), "exit_code": 0}
    gpus = facts_of(machine).gpus
    assert (gpus.source, gpus.driver_version, len(gpus.devices)) == ("nvidia-smi", "550.163.01", 1)


def test_when_both_fail_both_reasons_are_told():
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "timeout", "10 s")
    machine.sections["nvidia_smi"] = {"q": {"why": "timeout", "detail": "15 s"}, "exit_code": 124}
    with pytest.raises(CannotMeasure, match=r"timeout: 10 s; nvidia-smi: timeout: 15 s"):
        _ = facts_of(machine).gpus
