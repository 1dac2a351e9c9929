"""Each note of an answer is there in English and in Chinese, and the terminal shows the language that was asked for."""

# ruff: noqa: RUF001 - Chinese punctuation
import re

import pytest

from nodegate.watch import remarks, render
from nodegate.watch.answer import Answer, State
from nodegate.watch.pattern import Pauses, Period

PERIOD = Period(iterations=100, times=3.0, part=0.02, spikes=9, pauses=0)
ALL = (
    *(remarks.ITSELF, remarks.NO_TIMES, remarks.DIED, remarks.restarted(12, 10), remarks.settings(2)),
    *(remarks.explained(1802, "08:02:00", by) for by in (remarks.START, remarks.END, remarks.RESTART)),
    *(remarks.explained(1802, "08:02:00", by) for by in remarks.PAUSES.values()),
    *(remarks.periodic(PERIOD), remarks.irregular(Pauses(100, 900, 9, 1.6, 0.02, 50.0, 20.0))),
)


@pytest.mark.parametrize("note", ALL, ids=lambda note: note.en[:30])
def test_a_note_says_the_same_numbers_in_both(note):
    assert re.search("[\u4e00-\u9fff]", note.zh)
    assert sorted(re.findall(r"[0-9.:-]*[0-9]", note.en)) == sorted(re.findall(r"[0-9.:-]*[0-9]", note.zh))


@pytest.mark.parametrize(("language", "begins"), [("en", "note: the log ends"), ("zh", "注意：日志以错误结束")])
def test_the_terminal_shows_the_language_that_was_asked_for(language, begins):
    notes = {"notes": (remarks.DIED.en,), "notes_zh": (remarks.DIED.zh,)}
    said = Answer(State.HEALTHY, "", "x", 9, 1, 9, 1.0, **notes)
    assert [line for line in render.text(said, "log", language) if line.startswith(begins)]
