"""nvbandwidth: every trap of its text and of its JSON. Its exit code is not read: it is 0 though a case failed."""

import pytest
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import nvbandwidth
from nodegate.tools.nvbandwidth import FAILED, WAIVED

IN = "host_to_device_memcpy_ce"
BETWEEN = "device_to_device_memcpy_write_ce"


def case(found, name):
    return next(each for each in found.cases if each.name == name)


def test_pairs_that_do_not_exist_are_none_and_never_zero():
    text = recording("nvbandwidth", "healthy.json").replace('"N/A"', '"0.00"')
    assert case(nvbandwidth.parse(text), BETWEEN).matrix[1] == (396.1, None, 396.1, 396.1), "as old versions write it"


def test_a_case_that_was_not_found_is_an_error_whatever_its_spelling():
    text = '{"nvbandwidth": {"testcases": [{"name": "no_such", "status": "ERROR"}]}}'
    assert case(nvbandwidth.parse(text), "no_such").status == FAILED


def test_what_is_no_json_is_no_result():
    for printed, errors, said in (
        ("nvbandwidth Version: v0.2\nRunning host_to_device_memcpy_ce.\n", "", r"nvbandwidth Version: v0\.2"),
        ("", "cannot open shared object", "cannot open shared object"),
    ):
        with pytest.raises(CannotMeasure, match=f"ran no case: {said}"):
            nvbandwidth.parse(printed, errors)


def test_a_cell_that_is_no_number_is_quoted():
    text = recording("nvbandwidth", "healthy.json").replace("55.6", "fast")
    with pytest.raises(CannotMeasure, match="not a number: fast"):
        nvbandwidth.parse(text)


def test_a_real_json_of_version_0_5():
    found = nvbandwidth.parse(corpus("nvbandwidth/dcgm_verbose_full.json"))
    assert case(found, IN).matrix == ((12.3964,),)
    assert (found.version, found.driver) == ("v0.5", "565.02")
    assert case(found, "device_to_device_latency_sm").status == WAIVED
    assert len(found.cases) == 32
