"""The page of an answer: whole, escaped, without script, with a bounded plot; its notes in both languages."""

# ruff: noqa: RUF001 - Chinese punctuation
import base64
import hashlib
import re
from xml.etree import ElementTree as ET

import pytest
from support.training_logs import megatron, slowed, times, watched

from nodegate.watch import remarks, render
from nodegate.watch.answer import Answer, State
from nodegate.watch.command import watch
from nodegate.watch.html import page
from nodegate.watch.options import Asked
from nodegate.watch.pattern import Pauses, Period
from nodegate.watch.plot import MOST_BUCKETS, Curve, plot


def test_the_page_of_a_slow_job():
    watching = watched(megatron(slowed(times(400), 200, 1.5)) + megatron(times(100), first=390))
    html = page(watching.answer(), watching.curve, "train.log")
    assert "<title>slow: train.log</title>" in html
    assert "slow since iteration 201" in html
    assert "restarted after iteration 400, continued from 390" in html
    svg = ET.fromstring(re.search("<svg.*</svg>", html)[0])  # type: ignore[index]  # noqa: S314 - our own
    classes = [element.get("class") for element in svg.iter()]
    assert (classes.count("slow"), classes.count("start"), classes.count("usual")) == (1, 1, 1)
    (shade,) = (element for element in svg.iter() if element.get("class") == "slow")
    assert float(shade.get("x", "0")) == pytest.approx(70 + 890 * 200 / 500, abs=10)


def test_a_name_in_the_page_is_text_and_nothing_may_run():
    watching = watched("")
    html = page(watching.answer(), watching.curve, '<script>alert(1)</script>"\u202e')
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\u202e" not in html
    style = re.search("<style>(.*)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src &#39;none&#39;; style-src &#39;sha256-{digest}&#39;" in html


def test_the_command_writes_the_page(tmp_path, capsys):
    log, html = tmp_path / "train.log", tmp_path / "page.html"
    log.write_text(megatron(times(100)))
    assert watch(Asked(log, once=True, html=html)) == 0
    assert "<svg" in html.read_text()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    assert "healthy" in capsys.readouterr().out


def test_the_curve_of_a_long_job_is_bounded_and_keeps_its_spikes():
    curve = Curve()
    for number in range(100_000):
        curve.add(number, number, 60.0 if number == 55_555 else 2.0)
    assert MOST_BUCKETS / 4 < len(curve.buckets) <= MOST_BUCKETS
    assert (curve.buckets[0].first, curve.buckets[-1].last) == (0, 99_999)
    assert sum(bucket.points for bucket in curve.buckets) == 100_000
    (spike,) = (bucket for bucket in curve.buckets if bucket.high == 60)
    assert spike.first <= 55_555 <= spike.last
    assert len(plot(curve.buckets, (), 2.0)) < 200_000


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
