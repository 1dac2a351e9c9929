"""nvidia-smi -q in every driver's layout gives the same facts as NVML would."""

import pytest
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools.nvidia_smi import lost_handles, parse_xml
from nodegate.unknown import Unknown, Why


def why(reading):
    assert isinstance(reading, Unknown), reading
    return reading.why


@pytest.mark.parametrize("word", ["Insufficient Resources", "In Use"])
def test_the_word_for_a_fabric_that_was_not_joined_is_kept(word):
    written = recording("nvidia_smi", "q-570.xml").replace("<status>Success</status>", f"<status>{word}</status>")
    assert {gpu.fabric.status for gpu in parse_xml(written).devices if not isinstance(gpu.fabric, Unknown)} == {word}


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


def card(body):
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
    assert (gpu.processes, gpu.gsp_enabled) == ((), False)
    assert why(gpu.link_width) is Why.MISSING


def test_a_corrupted_inforom_is_found_in_any_output():
    written = recording("nvidia_smi", "q-lost.xml") + "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"
    _, corrupted = parse_xml(written).devices
    assert corrupted.inforom_valid is False


@pytest.mark.parametrize(
    ("parse", "written", "said"),
    [
        (parse_xml, "", "nvidia-smi's output is empty"),
        (parse_xml, "NVIDIA-SMI has failed because it could not\n", "names no GPU: NVIDIA-SMI has failed"),
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
