"""A hook takes a fresh word that another hook kept, or measures; two at once measure once."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from nodegate.demands.demands import Demands
from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict
from nodegate.hook.current_verdict import Answer
from nodegate.run import bootcheck
from nodegate.run.bootcheck import Outcome

WORDS = {Exit.FIT: "fit: all", Exit.UNFIT: "unfit: GPU 3", Exit.UNKNOWN: "could not tell: x", Exit.BUSY: "busy: y"}


class Bootchecks:
    """Stands in for the node: what it says next, and how often it was asked."""

    def __init__(self, monkeypatch):
        self.word, self.asked = Exit.FIT, 0
        self.without: tuple[str, ...] = ()
        monkeypatch.setattr(bootcheck, "bootcheck", self)

    def __call__(self, *, without, **_):
        self.asked, self.without = self.asked + 1, without
        return Outcome(self.word, WORDS[self.word])


@pytest.fixture
def node(monkeypatch):
    return Bootchecks(monkeypatch)


@pytest.fixture
def question(tmp_path):
    return current_verdict.Question(tmp_path / "run/verdict.json")


def test_a_fit_word_is_kept_and_used_while_it_is_fresh(node, question):
    assert current_verdict.answer(question, fresh_s=60) == Answer(Exit.FIT, "fit: all")
    again = current_verdict.answer(question, fresh_s=60)
    assert (again.exit, again.age_s is not None, node.asked) == (Exit.FIT, True, 1)
    current_verdict.answer(question, fresh_s=0)
    assert node.asked == 2


@pytest.mark.parametrize(("word", "stands"), [(Exit.UNKNOWN, True), (Exit.BUSY, True), (Exit.FIT, False)])
def test_an_unfit_word_is_looked_at_again_and_stands_while_nothing_better_is_known(node, question, word, *, stands):
    node.word = word
    assert current_verdict.answer(question, fresh_s=60).exit is word
    assert question.file.exists() is not stands, "what is no verdict is not kept"
    node.word = Exit.UNFIT
    current_verdict.answer(question, fresh_s=0)
    node.word = word
    assert current_verdict.answer(question, fresh_s=60).exit is (Exit.UNFIT if stands else word)
    assert current_verdict.answer(question, fresh_s=0).exit is word


def test_another_bootcheck_is_waited_for_and_another_run_is_not(node, question, monkeypatch):
    node.word = Exit.BUSY
    assert current_verdict.answer(question, fresh_s=60).exit is Exit.BUSY
    assert node.asked == 1
    monkeypatch.setitem(WORDS, Exit.BUSY, "busy: another run holds this node (nodegate bootcheck)")
    monkeypatch.setattr(time, "sleep", lambda _: setattr(node, "word", Exit.FIT))
    assert current_verdict.answer(question, fresh_s=60).exit is Exit.FIT
    assert node.asked == 3


def test_hooks_at_the_same_time_measure_once(node, question):
    with ThreadPoolExecutor(4) as hooks:
        said = list(hooks.map(lambda _: current_verdict.answer(question, fresh_s=60).exit, range(4)))
    assert (said, node.asked) == ([Exit.FIT] * 4, 1)


def test_other_limits_are_another_question(node, question, tmp_path):
    limits = tmp_path / "site.yaml"
    limits.write_text("platform: a\n")
    with_limits = replace(question, baselines=(limits,))
    current_verdict.answer(with_limits, fresh_s=60)
    current_verdict.answer(with_limits, fresh_s=60)
    assert node.asked == 1
    limits.write_text("platform: changed\n")
    current_verdict.answer(with_limits, fresh_s=60)
    current_verdict.answer(question, fresh_s=60)
    assert node.asked == 3


def test_without_a_place_to_keep_it_the_node_is_measured(node, tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = current_verdict.Question(tmp_path / "file/verdict.json")
    assert [current_verdict.answer(nowhere, fresh_s=60).exit for _ in range(2)] == [Exit.FIT] * 2
    assert node.asked == 2


def test_what_holds_a_gpu_counts_only_where_no_other_job_can_be_there(node, question):
    current_verdict.answer(question, fresh_s=60)
    assert node.without == ("idle.", "host.ports")
    current_verdict.answer(replace(question, every_gpu=True), fresh_s=60)
    assert node.without == ("host.ports",)
    current_verdict.answer(replace(question, exclusive=True), fresh_s=60)
    assert (node.without, node.asked) == ((), 3), "a word that was kept beside jobs says nothing of an empty node"


def demands(folder, *, port, node=""):
    file = folder / "demands.yaml"
    file.write_text(Demands(node or socket.gethostname(), {"nodegate_ports": [port]}).text)
    file.chmod(0o644)
    return file


def test_a_kept_word_is_of_the_demands_that_it_was_measured_by(node, question, tmp_path):
    asked = replace(question, demands=demands(tmp_path, port=29500))
    for _ in range(2):
        assert current_verdict.answer(asked, fresh_s=60).exit is Exit.FIT
    assert node.asked == 1
    demands(tmp_path, port=29501)
    current_verdict.answer(asked, fresh_s=60)
    assert node.asked == 2
    current_verdict.answer(question, fresh_s=60)
    assert node.asked == 3


@pytest.mark.parametrize("word", [Exit.FIT, Exit.UNFIT])
def test_by_demands_that_cannot_be_used_no_word_stands(node, question, tmp_path, word):
    node.word, asked = word, replace(question, demands=demands(tmp_path, port=29500))
    assert current_verdict.answer(asked, fresh_s=60).exit is word
    demands(tmp_path, port=29500, node="another")
    refused = current_verdict.answer(asked, fresh_s=60)
    assert refused.exit is Exit.UNKNOWN
    assert "the demands of another" in refused.line
    assert node.asked == 1
