"""The errors of the fabric manager's log: each row finds its own line, in both languages, and none is slow to read."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.growth import MOST_GROWTH, growth
from nodegate.errors import CannotMeasure
from nodegate.knowledge.tables import Lasts, fabric_lines
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.subjects import fabric_log
from nodegate.tools import fabric_manager
from nodegate.tools.fabric_manager import Entry
from nodegate.verdicts import Verdicts


def test_the_rule_is_the_first_that_fits_its_own_example(subtests: pytest.Subtests) -> None:
    for rule in fabric_lines():
        with subtests.test(rule.name):
            problem = fabric_log.problem_of(Entry("Nov 20 2026 03:12:09", "ERROR", rule.example), Profile.DELIVERY)
            assert problem is not None
            assert problem.code == rule.name.replace("_", " ")
            assert any(held in rule.example for held in rule.holds)


def test_every_sentence_stands_in_both_languages_without_an_end(subtests: pytest.Subtests) -> None:
    for rule in fabric_lines():
        with subtests.test(rule.name):
            for text in (rule.meaning_text, rule.action_text):
                assert text.en
                assert not re.search(r"[\n.]$|  ", text.en)
                assert re.search(r"[\u4e00-\u9fff]", text.zh)
            assert rule.failure_modes
            assert rule.lasts is Lasts.START


def test_the_same_words_as_information_are_no_error(subtests: pytest.Subtests) -> None:
    for rule in fabric_lines():
        with subtests.test(rule.name):
            assert fabric_log.problem_of(Entry("Nov 20 2026 03:12:09", "INFO", rule.example), Profile.DELIVERY) is None


@given(st.text(max_size=400), st.sampled_from(["INFO", "ERROR", "CRITICAL"]))
def test_no_entry_breaks_it(message: str, level: str) -> None:
    verdicts = Verdicts()
    fabric_log.judge_entries([Entry("Foo 99 2026 03:12:09", level, message)], 0.0, Profile.DELIVERY, verdicts)
    assert verdicts.findings
    assert verdicts.verdict in set(Verdict)


@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "replace"))))
def test_no_log_breaks_the_parser(text: str) -> None:
    try:
        entries = fabric_manager.parse_log(text)
    except CannotMeasure:
        return
    assert entries
    assert all(len(entry.message) <= fabric_manager.MAX_MESSAGE + 100 for entry in entries)


def test_zeros_and_broken_characters_inside_an_entry_are_shown_and_harm_nothing() -> None:
    raw = b"[Nov 20 2026 03:12:09] [ERROR] [tid 1] failed \x00\xff\xfe NVLink \x1b[2J training\n"
    (entry,) = fabric_manager.parse_log(raw.decode("utf-8", "replace"))
    assert entry.level == "ERROR"
    assert "\x00" not in entry.message
    assert "\x1b" not in entry.message


def read(text: str) -> None:
    with contextlib.suppress(CannotMeasure):
        fabric_log.judge_entries(fabric_manager.parse_log(text), 0.0, Profile.DELIVERY, Verdicts())


@pytest.mark.parametrize("word", ["failed NVLink ", "multicast ", "a", "[", "detected NVSwitch fatal error 1 on fid "])
@pytest.mark.parametrize("start", ["", "[Nov 20 2026 03:12:09] [ERROR] [tid 1] "])
def test_the_time_grows_with_the_length_of_a_line(start: str, word: str) -> None:
    assert growth(read, lambda size: start + word * (size // len(word)), 128_000, quick_s=0.002) <= MOST_GROWTH


def test_ten_megabytes_in_one_line_cost_no_more_than_what_is_kept_of_them() -> None:
    line = "[Nov 20 2026 03:12:09] [ERROR] [tid 1] " + "failed NVLink multicast " * 44_000  # a megabyte
    assert growth(read, lambda megabytes: line * megabytes, 10, quick_s=0.002) <= MOST_GROWTH
