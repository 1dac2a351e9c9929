"""The fabric manager's log."""

import pytest
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import fabric_manager


def test_a_healthy_log_has_no_error():
    entries = fabric_manager.parse_log(recording("fabric_manager", "healthy.txt"))
    assert [entry.level for entry in entries] == ["INFO"] * 3
    assert entries[1].message.endswith("length:14 Message payload details:Team release request: Team Handle:99 Flags:0")


def test_switch_errors_are_read():
    entries = fabric_manager.parse_log(recording("fabric_manager", "faulty.txt"))
    errors = [fabric_manager.switch_error(entry) for entry in entries if entry.level == "ERROR"]
    assert errors == [
        fabric_manager.SwitchError(fatal=True, sxid=20034, address="0000:6e:00.0", port=33),
        fabric_manager.SwitchError(fatal=False, sxid=12028, address="0000:6e:00.0", port=61),
        None,
    ]


def test_a_tail_that_begins_within_an_entry_loses_only_that_entry():
    assert len(fabric_manager.parse_log(recording("fabric_manager", "truncated.txt"))) == 2


@pytest.mark.parametrize(("written", "said"), [("something else\n", "has no entry: something else"), ("", "is empty")])
def test_a_log_without_an_entry_is_quoted(written, said):
    with pytest.raises(CannotMeasure, match=said):
        fabric_manager.parse_log(written)
