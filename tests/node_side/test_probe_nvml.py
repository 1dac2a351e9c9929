"""NVML as the probe reads it, against a compiled mock library: healthy, lost, too old, hanging, crashing."""

import time
import uuid
from collections.abc import Callable

import pytest
from support.payload import Ran, nothing_is_left, run_probe

from lab.nvml import scenario as nvml
from lab.nvml.scenario import healthy_h100
from lab.processes import MARK, marked
from nodegate.node_side.probe.nvml_readings import READINGS
from nodegate.probe.collect import program

Probe = Callable[..., Ran]


@pytest.fixture
def probe(tmp_path):
    def run(scenario, **options):
        variables = nvml.environment(scenario.write(tmp_path / "scenario.conf"))
        return run_probe(sections=["nvml"], environment=variables, **options)

    return run


@pytest.fixture
def gpus(probe):
    return lambda scenario, **options: probe(scenario, **options).data("nvml")["gpus"]


def readings_in(value):
    """Every reading without a value, however deep."""
    if isinstance(value, dict):
        return [value] if "why" in value else [found for entry in value.values() for found in readings_in(entry)]
    return [found for entry in value for found in readings_in(entry)] if isinstance(value, list) else []


def test_the_peer_access_of_each_two_gpus_is_read(probe):
    scenario = healthy_h100(4).set(1, "p2p.3.1", 4)
    expected = [[first, second, 0, 0] for second in range(4) for first in range(second)]
    expected[4][3] = 4
    assert probe(scenario).data("nvml")["peers"] == expected


def test_a_driver_that_hangs_over_its_peers_keeps_all_other_readings(probe):
    data = probe(healthy_h100(2).hang(0, "nvmlDeviceGetP2PStatus", 60), limits_s={"nvml": 4.0}).data("nvml")
    assert data["incomplete"]["why"] in ("timeout", "hung")
    assert "peers" not in data
    assert all(set(gpu) == {"index", *READINGS} for gpu in data["gpus"])


def test_time_slowed_down_is_read_by_its_field_where_the_call_is_not_supported(gpus):
    scenario = healthy_h100(1).error("nvmlDeviceGetViolationStatus", 3)
    scenario.set(0, "field.75", 8).set(0, "field.77", "error 3").set(0, "field.79", 0)
    violation = gpus(scenario)[0]["violation_ns"]
    assert (violation["thermal"], violation["reliability"]) == (8, 0)
    assert violation["board_limit"]["why"] == "not supported"


def test_every_reading_has_the_documented_form(gpus):
    scenario = (
        healthy_h100(1).set(0, "processes.compute", "4242:1073741824 4343:-").system("process.4242", "python x.py")
    )
    gpu = gpus(scenario.set(0, "retired.0", 3).set(0, "retired.1", 0).set(0, "retired_pending", 1))[0]
    expected = {
        "bus_id": "00000000:1A:00.0",
        "pci_device_id": 0x233010DE,
        "link_width": 16,
        "power_limit_range_mw": [200000, 700000],
        "violation_ns": {"thermal": 0, "board_limit": 0, "reliability": 0},
        "memory_temperature_c": 45,
        "ecc_mode": [1, 1],
        "remap_histogram": [2560, 0, 0, 0, 0],
        "retired_pages": [3, 0],
        "retired_pending": True,
        "gsp_firmware": "550.163.01",
        "gsp_mode": [1, 1],
        "recovery_action": 0,
        "memory_used_bytes": 0,  # what the driver reserves is not in use
    }
    assert {name: gpu[name] for name in expected} == expected
    fabric = {"state": 3, "health_mask": 426, "health_summary": 1, "cluster_uuid": str(uuid.UUID(int=0))}
    assert {name: gpu["fabric"][name] for name in fabric} == fabric
    assert len(gpu["nvlinks"]) == 18
    counters = {"replay": 0, "recovery": 0, "crc": 0}
    assert gpu["nvlinks"][17] == {"link": 17, "state": 1, "speed_mbps": 26562, "remote_type": 2, **counters}
    known, hidden = gpu["processes"]
    assert known == {"pid": 4242, "kind": "compute", "memory_bytes": 1 << 30, "name": "python x.py"}
    assert hidden["memory_bytes"]["why"] == "not supported"


def test_nvlink_5_is_read_by_its_own_fields(gpus):
    fields = (206, 207, 208, 211, 212, 213, 220, 222)
    scenario = healthy_h100(2)
    for field in fields:
        scenario.set(1, f"field.{field}.{0xFFFFFFFF}", field)
    older, newer = (gpu["nvlink5"] for gpu in gpus(scenario.set(1, "field.214.4294967295", "error 10")))
    assert older["why"] == "not supported"
    assert [value for value in newer.values() if isinstance(value, int)] == list(fields)
    assert newer["failed_recoveries"]["why"] == "timeout"


def test_a_driver_that_does_not_know_a_number_does_not_support_it(gpus):
    (gpu,) = gpus(healthy_h100(1).set(0, "field.206", "error 2"))
    assert gpu["nvlink5"]["why"] == "not supported"


def test_faults_come_through_as_numbers(gpus):
    scenario = healthy_h100(2).set(1, "remap.failure", 1).set(1, "remap.bank.none", 2).set(1, "event_reasons", "0x80")
    scenario.set(1, "ecc.uncorrected.aggregate.7", 4).set(1, "nvlink.5", 0).set(1, "field.161.3", 9)
    scenario.set(1, "inforom_valid", 0).set(1, "sram_threshold_exceeded", 1).set(1, "fabric_state", 2)
    good, bad = gpus(scenario.set(1, "temperature_margin", -3))
    expected = {
        "remapped_rows": ([0, 0, 0, 0], [0, 0, 0, 1]),
        "remap_histogram": ([2560, 0, 0, 0, 0], [2560, 0, 0, 0, 2]),
        "event_reasons": (1, 0x80),
        "inforom_valid": (True, False),
        "sram_threshold_exceeded": (False, True),
        "temperature_margin_c": (51, -3),
    }
    assert {name: (good[name], bad[name]) for name in expected} == expected
    assert (bad["ecc"]["aggregate_sram_uncorrected"], bad["fabric"]["state"]) == (4, 2)
    assert [link["link"] for link in bad["nvlinks"] if not link["state"]] == [5]
    assert [link["replay"] for link in bad["nvlinks"]][:5] == [0, 0, 0, 9, 0]


def test_a_lost_gpu_is_named_while_the_count_still_says_eight(probe):
    data = probe(healthy_h100().lose(3)).data("nvml")
    assert data["count"] == 8
    assert data["gpus"][3] == {"index": 3, "handle": {"why": "lost", "detail": "NVML 15: GPU is lost", "nvml": 15}}
    assert data["gpus"][4]["name"] == "NVIDIA H100 80GB HBM3"
    assert data["peers"] == {"why": "failed", "detail": "not asked: a GPU does not answer, or there are too many"}


def test_a_gpu_lost_after_its_handle_was_had_has_only_lost_readings(gpus):
    gpu = gpus(healthy_h100(2).lose(1, keeps_handle=True))[1]
    assert {reading["why"] for reading in readings_in(gpu)} == {"lost"}
    assert all(readings_in(value) for key, value in gpu.items() if key != "index")


def test_a_function_that_an_old_driver_lacks_is_missing_and_the_rest_stays(gpus):
    scenario = healthy_h100(1).missing("nvmlDeviceGetMarginTemperature").missing("nvmlDeviceGetGpuFabricInfoV")
    gpu = gpus(scenario.missing("nvmlDeviceGetCurrentClocksEventReasons").missing("nvmlDeviceGetModuleId"))[0]
    assert gpu["temperature_margin_c"] == {"why": "missing", "detail": "NVML 13: Function Not Found", "nvml": 13}
    assert gpu["module_id"]["why"] == "missing"
    assert gpu["event_reasons"] == 1  # under its older name
    assert gpu["fabric"]["state"] == 3  # by its older function
    assert gpu["fabric"]["health_mask"]["why"] == "missing"
    assert gpu["temperature_c"] == 34


def test_a_driver_that_knows_only_the_second_fabric_structure_is_asked_with_it(gpus):
    fabric = gpus(healthy_h100(1).set(0, "fabric_newest", 2))[0]["fabric"]
    assert (fabric["health_mask"], fabric["health_summary"]["why"]) == (426, "missing")


WHY = {3: "not supported", 4: "denied", 10: "timeout", 13: "missing", 15: "lost", 16: "lost", 999: "failed"}


@pytest.mark.parametrize(("code", "why"), WHY.items())
def test_each_nvml_error_has_its_reason_and_keeps_its_number(gpus, code, why):
    reading = gpus(healthy_h100(1).error("nvmlDeviceGetSerial", code, gpu=0))[0]["serial"]
    assert (reading["why"], reading["nvml"]) == (why, code)
    assert reading["detail"].startswith(f"NVML {code}: ")


def test_the_value_beside_a_failed_field_is_not_believed(gpus):
    gpu = gpus(healthy_h100(1).set(0, "field.82", "error 3").set(0, "field.230", "error 999"))[0]
    assert gpu["memory_temperature_c"]["why"] == "not supported"
    assert (gpu["recovery_action"]["why"], gpu["recovery_action"]["nvml"]) == ("failed", 999)


def test_links_by_older_counters_and_a_gpu_without_nvlink(gpus):
    older, without = gpus(
        healthy_h100(2).set(0, "field.161", "error 3").set(0, "nvlink.2.error.0", 7).set(1, "nvlinks", 0)
    )
    assert older["nvlinks"][2]["replay"] == 7
    assert without["nvlinks"]["why"] == "not supported"


def test_an_nvml_that_does_not_start_fails_with_its_own_words(probe, tmp_path):
    ran = probe(healthy_h100().error("nvmlInit", 9), root=tmp_path / "without-programs")
    assert (ran.section("nvml")["why"], ran.section("nvml")["nvml"]) == ("failed", 9)
    assert "Driver Not Loaded" in ran.section("nvml")["detail"]
    assert ran.section("nvidia_smi")["why"] == "missing"  # it was asked for as the second source


def test_a_hang_after_three_gpus_keeps_what_was_read_and_names_what_was_not(probe):
    started = time.monotonic()
    data = probe(healthy_h100().hang(3, "nvmlDeviceGetPowerUsage", 600), limits_s={"nvml": 5.0}).data("nvml")
    assert time.monotonic() - started < 30
    assert data["incomplete"]["why"] == "timeout"
    assert [set(gpu) for gpu in data["gpus"][:3]] == [{"index", *READINGS}] * 3
    hanging = data["gpus"][3]
    assert (hanging["serial"], hanging["power_mw"]["why"]) == ("1650123000004", "timeout")
    assert "GPU 3 power_mw" in hanging["power_mw"]["detail"]
    assert hanging["nvlinks"]["why"] == "timeout"
    assert [(gpu["index"], gpu["handle"]["why"]) for gpu in data["gpus"][4:]] == [(4 + n, "timeout") for n in range(4)]


def test_a_gpu_that_answers_very_late_is_asked_no_more_and_the_next_ones_are_read(gpus):
    scenario = healthy_h100(3).hang(1, "nvmlDeviceGetUUID", 5.2).error("nvmlDeviceGetUUID", 10, gpu=1)
    late, after = gpus(scenario)[1:]
    assert (late["uuid"]["nvml"], late["serial"]["why"]) == (10, "timeout")
    assert "uuid" in late["serial"]["detail"]
    assert after["serial"] == "1650123000003"


def test_an_nvml_that_hangs_at_the_start_is_a_timeout_and_nvidia_smi_is_not_tried(probe):
    ran = probe(healthy_h100().hang(None, "nvmlInit", 600), limits_s={"nvml": 0.5})
    assert ran.section("nvml")["why"] == "timeout"
    assert ran.section("nvidia_smi")["why"] == "timeout"
    assert "not started" in ran.section("nvidia_smi")["detail"]


def test_a_crash_inside_the_library_names_the_signal_and_the_call(probe):
    section = probe(healthy_h100().crash(2, "nvmlDeviceGetTemperature")).section("nvml")
    assert (section["why"], section["detail"]) == ("failed", "ended by SIGSEGV, at GPU 2 temperature_c")


def test_after_a_hang_no_process_is_left(probe):
    mark = uuid.uuid4().hex
    scenario = healthy_h100().hang(0, "nvmlDeviceGetName", 600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        probe(scenario, limits_s={"nvml": 0.3})
    assert marked(mark) == []


def test_when_the_probe_is_killed_its_children_die_with_it(tmp_path):
    scenario = healthy_h100().hang(0, "nvmlDeviceGetName", 600).write(tmp_path / "scenario.conf")
    sent = program(sections=["nvml"], limits_s={"nvml": 300.0})
    assert nothing_is_left(sent, nvml.environment(scenario), children=1)
