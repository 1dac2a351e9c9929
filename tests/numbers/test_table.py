"""The table of what a fleet measured: its rows come back as they were added."""

import pytest

from nodegate.numbers.table import Row, TableMaker

BUSBW, COPIES = 0, 1
ROWS = [
    (BUSBW, Row("gpu1", "", "launch 1", (480.0,))),
    (COPIES, Row("gpu1", "GPU 0", "", (55.0, 56.0))),
    (COPIES, Row("gpu1", "GPU 1", "", (54.0, 53.5, 54.5))),
    (BUSBW, Row("gpu2", "", "launch 1", (480.0,))),
    (COPIES, Row("gpu2", "GPU 0", "", (55.5, 0.0))),
]


@pytest.fixture
def table():
    maker = TableMaker()
    for number, row in ROWS:
        maker.add(number, row)
    return maker.table()


def test_the_rows_of_a_quantity_come_in_their_order_with_every_look(table):
    assert list(table.rows(COPIES)) == [row for number, row in ROWS if number == COPIES]


def test_several_quantities_one_after_the_other(table):
    assert list(table.rows(COPIES, BUSBW)) == [row for _, row in sorted(ROWS, key=lambda each: -each[0])]


def test_of_one_device(table):
    assert [row.node for row in table.rows(COPIES, device="GPU 0")] == ["gpu1", "gpu2"]


def test_a_device_that_nobody_has_has_no_rows(table):
    assert list(table.rows(COPIES, device="GPU 7")) == []


def test_how_many_looks_all_have_had_and_most(table):
    assert (table.looks(COPIES), table.looks(BUSBW), table.looks(COPIES, BUSBW)) == ((2, 2), (1, 1), (1, 1))
