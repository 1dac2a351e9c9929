"""The gate: which boards may carry work, and who writes that down."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, passed
from nodegate.hook.current_verdict import Question
from nodegate.node import Node
from nodegate.past.keys import Placed
from nodegate.profile import Profile
from nodegate.records.verdict import NodeVerdict
from nodegate.run import bootcheck, mark_passed
from nodegate.run.bootcheck import Outcome
from nodegate.transport.command import CommandSession

BOARDS = {"chassis": "C000001", "GPU 0": "1650001", "GPU 1": "1650002", "mlx5_0": "a088:c203:0001:0000"}
TEXT = passed.text_of("run", 1.8e9, BOARDS)


@pytest.mark.parametrize(
    ("text", "now", "exit_code", "words"),
    [
        (TEXT, BOARDS, None, ""),
        (TEXT, {**BOARDS, "GPU 0": "1650002", "GPU 1": "1650001"}, None, ""),  # numbered in another order
        (TEXT, {**BOARDS, "GPU 1": "1650009"}, Exit.UNFIT, "unfit: GPU 1: not passed yet: GPU 1 S/N 1650009 is new"),
        (TEXT, {**BOARDS, "GPU 2": "1650009"}, Exit.UNFIT, "not passed yet"),
        (TEXT, {**BOARDS, "chassis": "C000002"}, Exit.UNFIT, "unfit: chassis: not passed yet"),
        (None, BOARDS, Exit.UNFIT, "unfit: node: not passed yet: no run has accepted it"),
        (
            TEXT,
            {name: each for name, each in BOARDS.items() if name != "GPU 1"},
            Exit.UNKNOWN,
            "GPU 1 passed and shows",
        ),
        (TEXT, {}, Exit.UNKNOWN, "no serial number can be read"),
        *((text, BOARDS, Exit.UNKNOWN, "could not tell: ") for text in ("", "{", "[]", TEXT[:-9], "\x00" * 99)),
        (TEXT.replace("passed/1", "passed/9"), BOARDS, Exit.UNKNOWN, "damaged"),
        (json.dumps({"schema": passed.SCHEMA, "serials": {"GPU 0": 1}}), BOARDS, Exit.UNKNOWN, "damaged"),
        (TEXT + " " * (64 << 10), BOARDS, Exit.UNKNOWN, "damaged"),
    ],
)
def test_which_boards_may_carry_work(tmp_path, text, now, exit_code, words):
    file = tmp_path / passed.FILE
    if text is not None:
        file.write_text(text)
    said = passed.held_back(file, now)
    assert (said[0] if said else None) == exit_code
    assert words in (said[1] if said else "")


def test_a_file_that_others_can_write_says_nothing(tmp_path):
    file = tmp_path / passed.FILE
    file.write_text(TEXT)
    file.chmod(0o666)
    said = passed.held_back(file, BOARDS)
    assert said is not None
    assert (said[0], "others" in said[1] or "other users" in said[1]) == (Exit.UNKNOWN, True)


def test_a_verdict_of_before_does_not_open_the_gate(tmp_path, monkeypatch):
    file = tmp_path / passed.FILE
    file.write_text(TEXT)
    monkeypatch.setattr(current_verdict, "demands_here", lambda _: None)
    monkeypatch.setattr(bootcheck, "bootcheck", lambda **_: Outcome(Exit.FIT, "fit: 1 check passed", serials=BOARDS))
    question = Question(tmp_path / "verdict.json", gate=file)
    assert current_verdict.answer(question, fresh_s=60.0).exit is Exit.FIT
    assert current_verdict.answer(question, fresh_s=60.0).age_s is not None
    file.unlink()
    assert current_verdict.answer(question, fresh_s=60.0).line.startswith("unfit: node: not passed yet")
    assert current_verdict.answer(Question(tmp_path / "verdict.json"), fresh_s=60.0).exit is Exit.FIT


@pytest.mark.parametrize(
    ("profile", "verdict", "gate", "is_written"),
    [
        (Profile.DELIVERY, NodeVerdict.ACCEPTED, True, True),
        (Profile.NIGHTLY, NodeVerdict.WAIVED, True, True),
        (Profile.DELIVERY, NodeVerdict.ACCEPTED, False, False),
        *((Profile.DELIVERY, each, True, False) for each in (NodeVerdict.REJECTED, NodeVerdict.INCOMPLETE)),
        (Profile.BOOTCHECK, NodeVerdict.ACCEPTED, True, False),
        (Profile.TROUBLESHOOT, NodeVerdict.ACCEPTED, True, False),
    ],
)
def test_an_accepting_run_writes_it_where_the_node_asks(tmp_path, monkeypatch, profile, verdict, *, gate, is_written):
    folder = tmp_path / "state"
    monkeypatch.setattr(mark_passed, "_WRITE", mark_passed._WRITE.replace("/var/lib/nodegate", str(folder)))
    summary = SimpleNamespace(gate=gate, placed=tuple(Placed(*each) for each in BOARDS.items()))
    judging = SimpleNamespace(
        profile=profile, nodes={"gpu01": Node("gpu01")}, contexts=SimpleNamespace(summary=lambda _: summary)
    )
    run = SimpleNamespace(id="run", finished_epoch_s=1.8e9)
    report = SimpleNamespace(run=run, nodes=[SimpleNamespace(node="gpu01", verdict=verdict)])
    assert mark_passed.mark_passed(cast("Any", report), cast("Any", judging), CommandSession) == []
    assert (folder / passed.FILE).exists() is is_written
    if is_written:
        assert passed.held_back(folder / passed.FILE, BOARDS) is None
        folder.rename(tmp_path / "away")
        folder.write_text("in the way")
        (said,) = mark_passed.mark_passed(cast("Any", report), cast("Any", judging), CommandSession)
        assert said.startswith("gpu01 has passed, which could not be noted there: ")
