"""nvbandwidth: every trap of its text and of its JSON. Its exit code is not read: it is 0 though a case failed."""

import pytest
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import nvbandwidth
from nodegate.tools.nvbandwidth import FAILED, PASSED, WAIVED

IN, OUT = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
BETWEEN = "device_to_device_memcpy_write_ce"


def parsed(name: str, stderr: str = "") -> nvbandwidth.NvBandwidth:
    return nvbandwidth.parse(recording("nvbandwidth", name), stderr)


def case(found: nvbandwidth.NvBandwidth, name: str) -> nvbandwidth.Case:
    return next(each for each in found.cases if each.name == name)


def test_the_cells_of_json_are_text_and_become_numbers():
    found = parsed("healthy.json")
    copied = case(found, IN)
    assert (copied.matrix, copied.unit, copied.status) == (((55.6,) * 4,), "GB/s", PASSED)
    assert (found.version, found.driver) == ("v0.8", "570.133.20")
    assert (found.told, found.wrong_data) == ((), 0)
    first, second, *_ = found.devices
    assert [(each.index, each.address) for each in (first, second)] == [(0, "0000:19:00.0"), (1, "0000:1b:00.0")]


def test_pairs_that_do_not_exist_are_none_and_never_zero():
    assert case(parsed("healthy.json"), BETWEEN).matrix[1] == (396.1, None, 396.1, 396.1)
    text = recording("nvbandwidth", "healthy.json").replace('"N/A"', '"0.00"')
    assert case(nvbandwidth.parse(text), BETWEEN).matrix[1] == (396.1, None, 396.1, 396.1), "as old versions write it"


def test_a_case_that_fails_is_there_twice_and_its_last_word_holds():
    assert case(parsed("case-fails.json"), BETWEEN).status == FAILED
    assert case(parsed("case-fails.json"), OUT).status == PASSED


def test_a_case_that_was_not_found_is_an_error_whatever_its_spelling():
    text = '{"nvbandwidth": {"testcases": [{"name": "no_such", "status": "ERROR"}]}}'
    assert case(nvbandwidth.parse(text), "no_such").status == FAILED


def test_a_case_that_does_not_apply_is_waived():
    assert case(parsed("one-gpu.json"), BETWEEN).status == WAIVED


def test_wrong_data_is_told_by_the_gpu_outside_the_json():
    found = parsed("wrong-data.json")
    assert found.wrong_data == 2
    assert case(found, IN).status == PASSED, "nvbandwidth itself does not notice"


def test_of_the_three_matrices_of_a_bidirectional_case_the_total_is_kept():
    found = parsed("bidirectional.json")
    assert case(found, "device_to_device_bidirectional_memcpy_write_ce").matrix == ((None, 782.6), (782.6, None))
    assert case(found, "host_device_latency_sm").unit == "ns"


def test_without_cuda_there_is_no_case_and_the_reason_is_told():
    with pytest.raises(CannotMeasure, match=r"ran no case: \[CUDA_ERROR_SYSTEM_NOT_READY"):
        parsed("no-cuda.json")
    with pytest.raises(CannotMeasure, match="ran no case: cannot open shared object"):
        parsed("empty.txt", "cannot open shared object")
    with pytest.raises(CannotMeasure, match="ran no case: nothing"):
        parsed("empty.txt")


def test_what_is_cut_off_and_what_is_no_json_is_no_result():
    with pytest.raises(CannotMeasure, match="truncated"):
        parsed("truncated.json")
    with pytest.raises(CannotMeasure, match=r"ran no case: nvbandwidth Version: v0\.2"):
        nvbandwidth.parse("nvbandwidth Version: v0.2\nRunning host_to_device_memcpy_ce.\n")


def test_a_cell_that_is_no_number_is_quoted():
    text = recording("nvbandwidth", "healthy.json").replace("55.6", "fast")
    with pytest.raises(CannotMeasure, match="not a number: fast"):
        nvbandwidth.parse(text)


@pytest.mark.parametrize(
    "hostile",
    [
        '{"nvbandwidth": ' * 50_000,
        '{"nvbandwidth": {"testcases": [{"name": 7, "status": [], "bandwidth_matrix": [["1", 2], 3, []]}]}}',
        '{"nvbandwidth": {"testcases": 7, "GPU Device list": {"a": 1}, "error": 9}}',
        '{"nvbandwidth": []}',
        "\x1b[" * 100_000,
        "Device 1: " + "(" * 100_000,
    ],
)
def test_hostile_output_is_refused_or_says_little(hostile):
    try:
        found = nvbandwidth.parse(hostile)
    except CannotMeasure:
        return
    assert len(found.cases) <= 256
    assert all(each.status != PASSED for each in found.cases)


# Real outputs


def test_a_real_json_of_version_0_5():
    found = nvbandwidth.parse(corpus("nvbandwidth/dcgm_verbose_full.json"))
    assert case(found, IN).matrix == ((12.3964,),)
    assert (found.version, found.driver) == ("v0.5", "565.02")
    assert case(found, "device_to_device_latency_sm").status == WAIVED
    assert len(found.cases) == 32
