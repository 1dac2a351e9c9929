"""nvbandwidth: every trap of its text and of its JSON. Its exit code is not read: it is 0 though a case failed."""

from __future__ import annotations

import pytest
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import nvbandwidth
from nodegate.tools.nvbandwidth import FAILED, PASSED, RUNNING, WAIVED

IN, OUT = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
BETWEEN = "device_to_device_memcpy_write_ce"


def parsed(name: str, stderr: str = ""):
    return nvbandwidth.parse(recording("nvbandwidth", name), stderr)


def test_the_cells_of_json_are_text_and_become_numbers():
    found = parsed("healthy.json")
    assert found.case(IN).matrix == ((55.6,) * 4,)
    assert (found.case(IN).unit, found.case(IN).status) == ("GB/s", PASSED)
    assert (found.version, found.driver) == ("v0.8", "570.133.20")
    assert (found.told, found.wrong_data) == ((), 0)


def test_pairs_that_do_not_exist_are_none_and_never_zero():
    assert parsed("healthy.json").case(BETWEEN).matrix[1] == (396.1, None, 396.1, 396.1)
    assert parsed("unsupported-pairs.txt").case(BETWEEN).matrix == ((None, 22.71), (22.69, None))


def test_text_says_the_same_as_json():
    found = parsed("healthy.txt")
    assert found.case(IN).matrix == ((55.6, 55.6),)
    assert found.case(BETWEEN).matrix == ((None, 396.1), (396.1, None))
    assert (found.version, found.driver) == ("v0.8", "570.133.20")


@pytest.mark.parametrize("name", ["healthy.json", "healthy.txt"])
def test_devices_have_their_pci_address(name):
    first, second, *_ = parsed(name).devices
    assert [(each.index, each.address) for each in (first, second)] == [(0, "0000:19:00.0"), (1, "0000:1b:00.0")]


def test_a_case_that_fails_is_there_twice_and_its_last_word_holds():
    assert parsed("case-fails.json").case(BETWEEN).status == FAILED
    assert parsed("case-fails.json").case(OUT).status == PASSED


def test_a_case_that_fails_says_why_in_text():
    failed = parsed("case-fails.txt").case(OUT)
    assert (failed.status, failed.detail, failed.matrix) == (FAILED, "the stream did not finish", ())
    assert parsed("case-fails.txt").case(BETWEEN).status == PASSED


def test_a_case_that_was_not_found_is_an_error_whatever_its_spelling():
    text = '{"nvbandwidth": {"testcases": [{"name": "no_such", "status": "ERROR"}]}}'
    assert nvbandwidth.parse(text).case("no_such").status == FAILED


def test_a_case_that_an_old_version_waives_by_name_is_waived():
    written = "nvbandwidth Version: v0.2\n\nDevice 0: NVIDIA L4\n\nWaiving device_to_device_memcpy_read_sm.\n"
    found = nvbandwidth.parse(written)
    assert [(case.name, case.status) for case in found.cases] == [("device_to_device_memcpy_read_sm", WAIVED)]


def test_a_case_that_does_not_apply_is_waived():
    assert parsed("one-gpu.json").case(BETWEEN).status == WAIVED


def test_wrong_data_is_told_by_the_gpu_outside_the_json():
    found = parsed("wrong-data.json")
    assert found.wrong_data == 2
    assert found.case(IN).status == PASSED, "nvbandwidth itself does not notice"


def test_of_the_three_matrices_of_a_bidirectional_case_the_total_is_kept():
    found = parsed("bidirectional.json")
    assert found.case("device_to_device_bidirectional_memcpy_write_ce").matrix == ((None, 782.6), (782.6, None))
    assert found.case("host_device_latency_sm").unit == "ns"


def test_without_cuda_there_is_no_case_and_the_reason_is_told():
    with pytest.raises(CannotMeasure, match=r"ran no case: \[CUDA_ERROR_SYSTEM_NOT_READY"):
        parsed("no-cuda.json")
    with pytest.raises(CannotMeasure, match="ran no case: cannot open shared object"):
        parsed("empty.txt", "cannot open shared object")
    with pytest.raises(CannotMeasure, match="ran no case: nothing"):
        parsed("empty.txt")


def test_what_is_cut_off_is_no_result():
    with pytest.raises(CannotMeasure, match="truncated"):
        parsed("truncated.json")
    found = parsed("truncated.txt")
    assert [(each.name, each.status) for each in found.cases] == [(IN, PASSED), (OUT, PASSED), (BETWEEN, RUNNING)]


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
        "Running x.\n" * 100_000,
        "Running x.\nbandwidth (GB/s)\n" + "0 " * 100_000,
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


def test_the_sample_of_its_own_readme():
    (row,) = nvbandwidth.parse(corpus("nvbandwidth/nvidia_readme.txt")).case(IN).matrix
    assert (min(row), max(row), len(row)) == (25.94, 26.19, 8)


def test_a_real_gh200_with_what_its_author_left_out():
    found = nvbandwidth.parse(corpus("nvbandwidth/stas_gh200.txt"))
    last = found.cases[-1]
    assert (last.name, last.matrix) == ("device_to_host_bidirectional_memcpy_ce", ((171.76,),))


def test_a_real_run_of_version_0_6():
    found = nvbandwidth.parse(corpus("nvbandwidth/superbench_v06_gh200.txt"))
    assert (found.version, found.driver) == ("v0.6", "550.54.15")
    assert len(found.cases) == 15
    assert all(each.status == PASSED and each.matrix for each in found.cases)
    assert found.case("host_device_latency_sm").matrix == ((772.58,),)
    assert found.devices[0].address == "0009:01:00.0"


def test_a_real_json_of_version_0_5():
    found = nvbandwidth.parse(corpus("nvbandwidth/dcgm_verbose_full.json"))
    assert found.case(IN).matrix == ((12.3964,),)
    assert (found.version, found.driver) == ("v0.5", "565.02")
    assert found.case("device_to_device_latency_sm").status == WAIVED
    assert len(found.cases) == 32
