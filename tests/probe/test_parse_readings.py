"""Readings: a value, or the reason why there is none; everything else is unknown, never zero."""

import pytest

from nodegate.probe import readings as read
from nodegate.unknown import Unknown, Why


def test_a_reading_object_becomes_its_reason():
    data = {"serial": {"why": "denied", "detail": "NVML 4: Insufficient Permissions", "nvml": 4}}
    assert read.text(data, "serial") == Unknown(Why.DENIED, "NVML 4: Insufficient Permissions", 4)


def test_a_reason_that_we_do_not_know_is_a_failure_that_keeps_its_words():
    assert read.text({"a": {"why": "eclipse", "detail": "of the moon"}}, "a") == Unknown(
        Why.FAILED, "eclipse: of the moon"
    )


def test_an_absent_key_is_missing():
    assert read.integer({}, "count") == Unknown(Why.MISSING, "the node sent no count")


@pytest.mark.parametrize(
    ("get", "value", "expected"),
    [
        (read.integer, "8", "expected a whole number, the node sent 8"),
        (read.integer, True, "expected a whole number, the node sent True"),
        (read.integer, 8.0, "expected a whole number, the node sent 8.0"),
        (read.integer, 10**400, "expected a whole number, the node sent int"),
        (read.number, float("nan"), "expected a number, the node sent nan"),
        (read.number, float("inf"), "expected a number, the node sent inf"),
        (read.number, None, "expected a number, the node sent NoneType"),
        (read.text, ["a"], "expected text, the node sent list"),
        (read.flag, "yes", "expected true or false, the node sent yes"),
        (read.flag, 2, "expected true or false, the node sent 2"),
        (read.items, {}, "expected a list, the node sent dict"),
        (read.mapping, [], "expected an object, the node sent list"),
        (read.counted, "12 34", "expected a whole number, the node sent 12 34"),
        (read.counted, "", "expected a whole number, the node sent nothing"),
    ],
)
def test_a_wrong_type_is_unknown_and_says_what_came(get, value, expected):
    assert get({"key": value}, "key") == Unknown(Why.FAILED, expected)


def test_counters_without_a_counter_behind_them_are_not_supported():
    assert read.counted({"symbol_error": "N/A (no PMA)"}, "symbol_error") == Unknown(Why.NOT_SUPPORTED, "N/A (no PMA)")
    assert read.counted({"symbol_error": "255\n"}, "symbol_error") == 255


def test_labels_are_one_printable_bounded_line():
    shown = read.text({"name": "  a\x1b[31m\nb\ud800" + "x" * 1000}, "name")
    assert isinstance(shown, str)
    assert shown.startswith("a?[31m?b?xxx")
    assert len(shown) == read.MAX_LABEL + len("...")


def test_bodies_keep_their_lines_and_can_be_encoded():
    assert read.body({"log": "a\n\ud800b\0"}, "log") == "a\n?b?"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("00000000:1A:00.0", "0000:1a:00.0"),
        ("0000:1a:00.0", "0000:1a:00.0"),
        ("1a:00.0", "0000:1a:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_every_form_of_a_pci_address_becomes_that_of_sysfs(written, address):
    assert read.address_in(written) == address


def test_one_bad_number_makes_a_list_unknown():
    assert read.integers({"rows": [0, 1, True, False]}, "rows", 4) == (0, 1, 1, 0)
    assert isinstance(read.integers({"rows": [0, "1", 0, 0]}, "rows", 4), Unknown)
    assert isinstance(read.integers({"rows": [0, 1]}, "rows", 4), Unknown)
