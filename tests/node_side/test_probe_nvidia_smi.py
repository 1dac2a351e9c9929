"""NVIDIA's real nvidia-smi on the mock library: what we believe of its words and exit codes is what it does."""

import os
import platform
import subprocess

import pytest
from support.payload import run_probe

from lab.nvml import scenario as nvml
from lab.nvml.nvidia_smi import RELEASES, NotToBeHad, binary
from lab.nvml.scenario import healthy_h100
from nodegate.probe.nvml import parse
from nodegate.tools.nvidia_smi import parse_xml
from nodegate.unknown import Unknown

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the packages are for x86-64")


@pytest.fixture(scope="module", params=sorted(RELEASES))
def nvidia_smi(request):
    try:
        return binary(request.param)
    except NotToBeHad as error:
        pytest.skip(f"nvidia-smi {request.param}: {error}")


def run(nvidia_smi, scenario, folder, *args):
    file = scenario.write(folder / "scenario.conf")
    variables = {"PATH": os.environ["PATH"], **nvml.environment(file, nvidia_smi)}
    return subprocess.run([nvidia_smi, *args], env=variables, capture_output=True, text=True, timeout=30, check=False)


def test_a_gpu_without_a_handle_ends_it_with_15_and_names_the_gpu(nvidia_smi, tmp_path):
    done = run(nvidia_smi, healthy_h100(4).lose(3), tmp_path, "-q", "-x")
    assert done.returncode == 15
    assert "Unable to determine the device handle for GPU" in done.stdout + done.stderr
    assert "GPU is lost.  Reboot the system to recover this GPU" in done.stdout + done.stderr
    # NVML does not tell it the address, so it names the GPU by its index; of the other three it says nothing.
    (lost,) = parse_xml(done.stdout).devices
    assert lost.part.label == "GPU 3"
    assert isinstance(lost.lost, Unknown)


def test_the_probe_falls_back_to_it_when_nvml_gives_nothing(nvidia_smi, tmp_path):
    scenario = healthy_h100(2).error("nvmlInit", 18).write(tmp_path / "scenario.conf")
    variables = nvml.environment(scenario, nvidia_smi)
    # The probe hands programs a clean environment, so the scenario's name has to be said beside the program.
    wrapper = tmp_path / "bin" / "nvidia-smi"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nNVML_MOCK_SCENARIO={scenario} exec {nvidia_smi} "$@"\n')
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    ran = run_probe(sections=["nvml"], environment={**variables, "PATH": path})
    assert ran.section("nvml")["nvml"] == 18
    assert ran.data("nvidia_smi")["exit_code"] == 18
    assert "version mismatch" in ran.data("nvidia_smi")["q"]


def test_its_xml_becomes_the_same_facts_as_nvml(nvidia_smi, tmp_path):
    scenario = healthy_h100(2).set(1, "remap.failure", 1).set(1, "ecc.uncorrected.volatile", 3)
    scenario.set(1, "link_width", 8).set(1, "event_reasons", "0x80").set(1, "fabric_state", 2)
    done = run(nvidia_smi, scenario, tmp_path, "-q", "-x")
    assert done.returncode == 0, done.stdout[:300] + done.stderr[:300]
    ran = run_probe(sections=["nvml"], environment=nvml.environment(tmp_path / "scenario.conf"))
    by_nvml, by_text = parse(ran.data("nvml")), parse_xml(done.stdout)
    assert (by_text.count, by_text.driver_version) == (by_nvml.count, by_nvml.driver_version)
    same = ("name", "uuid", "serial", "vbios", "address", "link_width", "gsp_firmware", "remap", "power_w")
    for name in (*same, "event_reasons", "sm_clock_mhz"):
        read = [getattr(device, name) for device in by_text.devices]
        assert read == [getattr(device, name) for device in by_nvml.devices], name
    assert [device.fabric.state for device in by_text.devices] == [3, 2]
