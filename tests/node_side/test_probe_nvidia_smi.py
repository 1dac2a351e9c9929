"""NVIDIA's real nvidia-smi on the mock library: what we believe of its words and exit codes is what it does."""

from __future__ import annotations

import os
import platform
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support import bare
from support.payload import run_probe

from lab.nvml import scenario as nvml
from lab.nvml.nvidia_smi import RELEASES, NotToBeHad, binary
from lab.nvml.scenario import Scenario, healthy_h100
from nodegate.probe.nvml import parse
from nodegate.tools.nvidia_smi import parse_xml
from nodegate.unknown import Unknown

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the packages are for x86-64")


@pytest.fixture(scope="module", params=sorted(RELEASES))
def nvidia_smi(request: pytest.FixtureRequest) -> Path:
    try:
        return binary(request.param)
    except NotToBeHad as error:
        pytest.skip(f"nvidia-smi {request.param}: {error}")


def run(nvidia_smi: Path, scenario: Scenario, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    file = scenario.write(folder / "scenario.conf")
    variables = {"PATH": os.environ["PATH"], **nvml.environment(file, nvidia_smi)}
    return subprocess.run([nvidia_smi, *args], env=variables, capture_output=True, text=True, timeout=30, check=False)


def test_a_healthy_node_is_told_in_xml(nvidia_smi: Path, tmp_path: Path) -> None:
    done = run(nvidia_smi, healthy_h100(), tmp_path, "-q", "-x")
    assert done.returncode == 0, done.stdout[:300] + done.stderr[:300]
    log = ET.fromstring(done.stdout)  # noqa: S314
    assert log.findtext("attached_gpus") == "8"
    assert log.findtext("driver_version") == "550.163.01"
    gpus = log.findall("gpu")
    assert [gpu.findtext("serial") for gpu in gpus] == [str(1650123000001 + n) for n in range(8)]
    first = gpus[0]
    assert first.findtext("product_name") == "NVIDIA H100 80GB HBM3"
    assert first.findtext("pci/pci_gpu_link_info/link_widths/current_link_width") == "16x"
    assert first.findtext("remapped_rows/remapped_row_failure") == "No"
    assert first.findtext("gsp_firmware_version") == "550.163.01"
    assert first.findtext("clocks/sm_clock") == "1980 MHz"
    assert first.findtext("fabric/state") == "Completed"


def test_faults_are_told_in_its_words(nvidia_smi: Path, tmp_path: Path) -> None:
    scenario = healthy_h100(2).set(1, "remap.failure", 1).set(1, "link_width", 8).set(1, "event_reasons", "0x80")
    done = run(nvidia_smi, scenario.set(1, "fabric_state", 2), tmp_path, "-q", "-x")
    bad = ET.fromstring(done.stdout).findall("gpu")[1]  # noqa: S314
    assert bad.findtext("remapped_rows/remapped_row_failure") == "Yes"
    assert bad.findtext("pci/pci_gpu_link_info/link_widths/current_link_width") == "8x"
    assert bad.findtext("clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown") == "Active"
    assert bad.findtext("fabric/state") == "In Progress"


def test_a_gpu_without_a_handle_ends_it_with_15_and_names_the_gpu(nvidia_smi: Path, tmp_path: Path) -> None:
    done = run(nvidia_smi, healthy_h100(4).lose(3), tmp_path, "-q", "-x")
    assert done.returncode == 15
    assert "Unable to determine the device handle for GPU" in done.stdout + done.stderr
    assert "GPU is lost.  Reboot the system to recover this GPU" in done.stdout + done.stderr
    # NVML does not tell it the address, so it names the GPU by its index; of the other three it says nothing.
    (lost,) = parse_xml(done.stdout).devices
    assert lost.part.label == "GPU 3"
    assert isinstance(lost.lost, Unknown)


def test_a_gpu_lost_in_mid_run_is_a_row_of_words_with_exit_code_0(nvidia_smi: Path, tmp_path: Path) -> None:
    scenario = healthy_h100(2).lose(1, keeps_handle=True)
    done = run(nvidia_smi, scenario, tmp_path, "--query-gpu=index,serial,power.draw", "--format=csv,noheader")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "[GPU is lost], [GPU is lost], [GPU is lost]"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (9, "couldn't communicate with the NVIDIA driver"),
        (18, "Failed to initialize NVML: Driver/library version mismatch"),
    ],
)
def test_a_driver_that_does_not_start_has_its_exit_code(nvidia_smi: Path, tmp_path: Path, code: int, text: str) -> None:
    done = run(nvidia_smi, healthy_h100().error("nvmlInit", code), tmp_path)
    assert done.returncode == code
    assert text in done.stdout + done.stderr


def test_without_the_library_it_says_so_and_ends_with_12(nvidia_smi: Path, tmp_path: Path) -> None:
    variables = {"LD_LIBRARY_PATH": str(bare.libraries(tmp_path / "libraries"))}
    done = subprocess.run([nvidia_smi], env=variables, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 12
    assert "couldn't find libnvidia-ml.so library in your system" in done.stdout + done.stderr


def test_the_probe_falls_back_to_it_when_nvml_gives_nothing(nvidia_smi: Path, tmp_path: Path) -> None:
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


def test_its_xml_becomes_the_same_facts_as_nvml(nvidia_smi: Path, tmp_path: Path) -> None:
    scenario = healthy_h100(2).set(1, "remap.failure", 1).set(1, "ecc.uncorrected.volatile", 3)
    written = run(nvidia_smi, scenario, tmp_path, "-q", "-x").stdout
    ran = run_probe(sections=["nvml"], environment=nvml.environment(tmp_path / "scenario.conf"))
    by_nvml, by_text = parse(ran.data("nvml")), parse_xml(written)
    for name in ("name", "uuid", "serial", "vbios", "address", "link_width", "gsp_firmware", "remap", "power_w"):
        read = [getattr(device, name) for device in by_text.devices]
        assert read == [getattr(device, name) for device in by_nvml.devices], name
