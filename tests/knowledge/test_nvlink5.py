"""Xids 144 to 150: what each row of the table says, in both layouts of the number."""

from itertools import product

import pytest

from nodegate.knowledge.nvlink5 import FIRST, LAST, Event, decode, parse
from nodegate.knowledge.tables import rows

ROWS = rows("nvlink5.csv")


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['xid']}-{row['units']}-{row['status']}-{n}") for n, row in enumerate(ROWS)]
)
def test_each_row_is_found_by_its_numbers_in_both_layouts(row):
    status = int(row["status"], 16)
    for layout, rest, unit in product(("info", "info_before_575"), "01", row["units"].split("/")):
        info = int(row[layout].replace("-", rest), 2)
        event = parse(f"{unit} Fatal XC0 i0 Link 07 (0x{info:08x} 0x{status:08x} 0x00000000)")
        assert event == Event(unit, "Fatal", 7, info, status)
        decoded = decode(int(row["xid"]), event)
        assert decoded is not None
        assert decoded.severity == row["severity"]
        assert decoded.advice.en
        assert decoded.advice.zh


@pytest.mark.parametrize(
    ("code", "text", "severity", "advice"),
    [
        (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6", "link_fatal", "reset the GPU; look at"),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226", "nonfatal", "nothing to do now; look at"),
        (145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2", "nonfatal", "do what Xid 154 asks for"),
        (149, "NETIR Fatal XC0 i0 Link -1 (0x000fe406", "link_fatal", "reset the GPU; it usually follows another"),
    ],
)
def test_lines_of_real_forms(code, text, severity, advice):
    status = {"NETIR_BER_EVENT": 1, "RLW_SRC_TRACK": 8}.get(text.split(maxsplit=1)[0], 0)
    event = parse(f"{text} 0x{status:08x} 0x00000000)")
    assert event is not None
    decoded = decode(code, event)
    assert decoded is not None
    assert decoded.severity == severity
    assert decoded.advice.en.startswith(advice)


def test_the_unit_may_hold_digits_and_a_slash():
    event = parse("TLW_RX/TLW_RX_PIPE0 Nonfatal XC0 i0 Link 01 (0x0000000a 0x00000001 0x0)")
    assert event is not None
    assert event.unit == "TLW_RX/TLW_RX_PIPE0"


def test_numbers_that_no_row_has_are_not_guessed():
    assert decode(149, Event("NETIR_LINK_EVT", "Fatal", 1, 0xFFFFFFFF, 0x12345678)) is None


@pytest.mark.parametrize("text", ["", "NETIR_LINK_EVT", "lower Fatal XC0 i0 Link 1 (0x1 0x2", "X Fatal XC9 i0 Link 1"])
def test_another_form_is_no_event(text):
    assert parse(text) is None


def test_every_code_has_rows():
    assert {int(row["xid"]) for row in rows("nvlink5.csv")} == set(range(FIRST, LAST + 1))
