"""SXids: where, how bad, what to do; the printed word stands above the table."""

import pytest

from nodegate.knowledge.sxids import FATAL, NONFATAL, is_fatal, sxid_rule, sxids


def test_the_table_holds_the_codes_of_every_part_of_the_switch() -> None:
    assert len(sxids()) == 420
    assert {10003, 11004, 12028, 20009, 20034, 24007, 28006} <= set(sxids())
    assert {code // 1000 for code in sxids()} >= set(range(10, 30)) - {16, 17, 18}


@pytest.mark.parametrize("code", [20034, 12028, 99999])
@pytest.mark.parametrize(("word", "fatal"), [(FATAL, True), (NONFATAL, False)])
def test_the_printed_word_wins(code: int, word: str, fatal: bool) -> None:
    assert is_fatal(sxid_rule(code), word) is fatal


def test_without_a_word_the_table_decides_and_an_unknown_code_is_not_fatal() -> None:
    assert is_fatal(sxids()[20034], "")
    assert not is_fatal(sxids()[20009], "")
    assert not is_fatal(sxid_rule(99999), "")


def test_a_fatal_line_of_a_harmless_code_asks_for_a_reset_of_all() -> None:
    harmless = sxids()[10002]
    assert "reset all GPUs and switches" in harmless.action_for(fatal=True).en
    assert harmless.action_for(fatal=False).en == "watch it: the switch continued"
