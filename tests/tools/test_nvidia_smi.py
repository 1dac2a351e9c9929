"""nvidia-smi -q in every driver's layout gives the same facts as NVML would."""

import pytest
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.probe.gpu import EccCounters, GpuProcess, RowRemap
from nodegate.tools.nvidia_smi import corrupted_inforoms, lost_handles, parse_xml
from nodegate.unknown import Unknown, Why

LAYOUTS = ["q-525.xml", "q-550.xml", "q-570.xml", "q-580.xml", "q-595.xml"]


def why(reading: object) -> Why:
    assert isinstance(reading, Unknown), reading
    return reading.why


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_shows_the_same_board(layout: str):
    gpus = parse_xml(recording("nvidia_smi", layout))
    gpu = gpus.devices[0]
    assert gpus.source == "nvidia-smi"
    assert gpus.driver_version == layout.removeprefix("q-").removesuffix(".xml") + str(gpus.driver_version)[3:]
    assert (gpus.count, len(gpus.devices)) == (1, 1)
    assert (gpu.index, gpu.address, gpu.serial) == (0, "0000:19:00.0", "1650001000000")
    assert gpu.pci_id == "10de:2330"
    assert (gpu.link_gen_max, gpu.link_width, gpu.link_width_max) == (5, 16, 16)
    assert gpu.pcie_replays == 3
    assert gpu.event_reasons == frozenset({"gpu_idle"})
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz) == (345, 1980, 2619)
    assert gpu.power_w == pytest.approx(71.85)
    assert (gpu.power_limit_w, gpu.power_limit_default_w, gpu.power_limit_enforced_w) == (700.0, 700.0, 700.0)
    assert gpu.ecc == EccCounters(2, 3, 3, 7, 3, 4)
    assert (gpu.remap, gpu.spent_banks) == (RowRemap(1, 2, pending=False, failed=False), 0)
    assert gpu.module_id == 1
    assert gpu.gsp_firmware == gpus.driver_version
    assert (gpu.gsp_enabled, gpu.persistence, gpu.mig_enabled, gpu.ecc_enabled) == (True, True, False, True)
    assert (gpu.compute_mode, gpu.recovery_action) == (0, 0)
    assert gpu.memory_total_bytes == 81559 << 20
    assert gpu.processes == (GpuProcess(4711, "compute", "python3", 1005 << 20),)


def test_what_a_layout_does_not_have_is_unknown_and_not_zero():
    old, new = (parse_xml(recording("nvidia_smi", layout)).devices[0] for layout in ("q-525.xml", "q-595.xml"))
    assert why(old.fabric) is Why.MISSING
    assert why(old.sram_threshold_exceeded) is Why.MISSING
    assert old.temperature_slowdown_c == 89
    assert why(new.temperature_slowdown_c) is Why.MISSING
    assert new.temperature_margin_c == 53
    assert old.sm_clock_app_mhz == 1980
    assert why(new.sm_clock_app_mhz) is Why.NOT_SUPPORTED
    assert why(new.retired_single_bit) is Why.NOT_SUPPORTED
    assert why(new.nvlinks) is Why.MISSING


def test_a_faulty_board_shows_its_faults():
    gpu = parse_xml(recording("nvidia_smi", "q-faulty.xml")).devices[0]
    assert gpu.recovery_action == 4
    assert gpu.remap == RowRemap(1, 2, pending=True, failed=True)
    assert gpu.sram_threshold_exceeded is True
    assert gpu.event_reasons == frozenset({"gpu_idle", "hw_slowdown"})
    assert gpu.gsp_enabled is False
    assert why(gpu.gsp_firmware) is Why.NOT_SUPPORTED
    assert gpu.power_w == pytest.approx(71.2)  # the instant value is [Unknown Error]: the average stands in
    assert not isinstance(gpu.fabric, Unknown)
    assert (gpu.fabric.state, gpu.fabric.health_summary) == (2, 2)


@pytest.mark.parametrize("word", ["Insufficient Resources", "In Use"])
def test_the_word_for_a_fabric_that_was_not_joined_is_kept(word):
    written = recording("nvidia_smi", "q-570.xml").replace("<status>Success</status>", f"<status>{word}</status>")
    assert {gpu.fabric.status for gpu in parse_xml(written).devices if not isinstance(gpu.fabric, Unknown)} == {word}


def test_a_lost_gpu_keeps_its_place_and_its_address():
    gpus = parse_xml(recording("nvidia_smi", "q-lost.xml"))
    lost, healthy = gpus.devices
    assert (lost.index, lost.address) == (0, "0000:18:00.0")
    assert lost.lost == Unknown(Why.LOST, "GPU is lost.  Reboot the system to recover this GPU")
    assert why(lost.link_width) is Why.LOST
    assert (healthy.index, healthy.lost) == (1, None)


def test_output_with_nothing_but_lost_gpus():
    written = recording("nvidia_smi", "q-only-lost.txt")
    assert lost_handles(written) == (("0000:5d:00.0", "Unknown Error"),)
    (gpu,) = parse_xml(written).devices
    assert gpu.lost == Unknown(Why.LOST, "Unknown Error")


@pytest.mark.parametrize("word", ["GPU ", "gpu ", "the gpu ", "GPU1: ", "gpu1: "])
def test_the_letters_of_a_lost_gpu_s_line_do_not_matter(word):
    written = f"Unable to determine the device handle for {word}0000:5D:00.0: Unknown Error\n"
    assert lost_handles(written) == (("0000:5d:00.0", "Unknown Error"),)


@pytest.mark.parametrize("word", ["GPU3", "gpu3", "GPU 3"])
def test_a_lost_gpu_that_is_named_by_its_index_alone(word):
    # nvidia-smi 535 and 550 where NVML does not tell the address either: tests/node_side/test_probe_nvidia_smi.py
    said = "GPU is lost.  Reboot the system to recover this GPU"
    (gpu,) = parse_xml(f"Unable to determine the device handle for {word}: {said}\n").devices
    assert (gpu.index, gpu.lost) == (3, Unknown(Why.LOST, said))
    assert isinstance(gpu.address, Unknown)


def card(body: str):
    return parse_xml(f'<nvidia_smi_log><gpu id="00000000:19:00.0">{body}</gpu></nvidia_smi_log>').devices[0]


def test_retired_pages_of_older_boards():
    pages = "<retired_count>{}</retired_count>"
    single, double = (
        f"<{name}>{pages}</{name}>" for name in ("multiple_single_bit_retirement", "double_bit_retirement")
    )
    pending = "<pending_blacklist>Yes</pending_blacklist>"
    gpu = card(f"<retired_pages>{single.format(2)}{double.format(61)}{pending}</retired_pages>")
    assert (gpu.retired_single_bit, gpu.retired_double_bit, gpu.retired_pending) == (2, 61, True)


def test_a_part_that_is_not_there_as_a_whole():
    gpu = card(
        "<remapped_rows>N/A</remapped_rows><processes></processes><gsp_firmware_version>N/A</gsp_firmware_version>"
    )
    assert why(gpu.remap) is Why.NOT_SUPPORTED
    assert gpu.processes == ()
    assert gpu.gsp_enabled is False
    assert why(gpu.link_width) is Why.MISSING


def test_a_corrupted_inforom_is_found_in_any_output():
    assert corrupted_inforoms(recording("nvidia_smi", "table-inforom.txt")) == ("0000:3b:00.0",)
    written = recording("nvidia_smi", "q-lost.xml") + "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"
    _, corrupted = parse_xml(written).devices
    assert corrupted.inforom_valid is False


@pytest.mark.parametrize(
    ("parse", "written", "said"),
    [
        (parse_xml, "", "nvidia-smi's output is empty"),
        (parse_xml, "NVIDIA-SMI has failed because it could not\n", "names no GPU: NVIDIA-SMI has failed"),
        (parse_xml, recording("nvidia_smi", "q-truncated.xml"), "is truncated"),
        (parse_xml, "<nvidia_smi_log>\n<gpu></nvidia_smi_log>", "is not XML"),
        (parse_xml, '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aa">]><nvidia_smi_log></nvidia_smi_log>', "declaration"),
    ],
)
def test_other_output_is_refused_and_quoted(parse, written, said):
    with pytest.raises(CannotMeasure, match=said):
        parse(written)


def test_deep_xml_is_read_to_its_depth():
    deep = "<nvidia_smi_log>" + "<a>" * 50_000 + "</a>" * 50_000 + "</nvidia_smi_log>"
    assert parse_xml(deep).devices == ()
