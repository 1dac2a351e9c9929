"""What each hook does about each word: with the exit code, and with Slurm. Real Slurm has it in lab/tests/slurm."""

from pathlib import Path

import pytest

from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, hooks, slurm
from nodegate.hook.answer import Answer
from nodegate.hook.hooks import HookOptions, HookResult, epilog, healthcheck, prolog

WORDS = {
    Exit.FIT: "fit: 77 checks passed",
    Exit.UNFIT: "unfit: GPU 3: lost",
    Exit.UNKNOWN: "could not tell: no probe",
    Exit.BUSY: "busy: another run holds this node",
}
IDLE = slurm.Node(frozenset({"IDLE"}), "")
OURS = slurm.Node(frozenset({"IDLE", "DRAIN"}), "nodegate: GPU 3: lost")
OPS = slurm.Node(frozenset({"IDLE", "DRAIN"}), "maintenance by ops")
DOWN = slurm.Node(frozenset({"DOWN"}), "Not responding")


class Site:
    """A node, and what Slurm was told of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.node = IDLE
        self.word = Exit.FIT
        self.silent = False
        monkeypatch.setattr(current_verdict, "answer", lambda *_, **__: Answer(self.word, WORDS[self.word]))
        monkeypatch.setattr(slurm, "node", self._node)
        monkeypatch.setattr(slurm, "drain", lambda name, reason: self.told.append(f"drain {name} {reason}"))
        monkeypatch.setattr(slurm, "undrain", lambda name: self.told.append(f"undrain {name}"))
        monkeypatch.setenv("SLURMD_NODENAME", "gpu-2")
        monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)

    def _node(self, name: str) -> slurm.Node:
        if self.silent:
            raise slurm.NoAnswer("scontrol did not answer within 5 s")
        return self.node


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def asked(**settings: bool) -> HookOptions:
    return HookOptions(current_verdict.Question(Path("/nowhere")), **settings)


@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
@pytest.mark.parametrize("word", [Exit.FIT, Exit.UNKNOWN, Exit.BUSY])
def test_what_is_no_verdict_on_the_hardware_lets_work_go_on(site: Site, hook: hooks.Hook, word: Exit) -> None:
    site.word = word
    port = hooks.PORT if (hook, word) == (prolog, Exit.FIT) else ""
    assert hook(asked()) == HookResult(0, f"{WORDS[word]}{port}", is_news=word is not Exit.FIT)
    assert site.told == []


@pytest.mark.parametrize(("hook", "code"), [(prolog, 1), (epilog, 0), (healthcheck, 0)])
def test_an_unfit_node_is_drained_and_its_job_held(site: Site, hook: hooks.Hook, code: int) -> None:
    site.word = Exit.UNFIT
    assert hook(asked()) == HookResult(code, "unfit: GPU 3: lost; drained")
    assert site.told == ["drain gpu-2 nodegate: GPU 3: lost"]


@pytest.mark.parametrize("word", [Exit.UNKNOWN, Exit.BUSY])
@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_strict_stops_work_for_them_too(site: Site, hook: hooks.Hook, word: Exit) -> None:
    site.word = word
    said = hook(asked(strict=True))
    assert said.exit == (int(word) if hook is prolog else 0)
    assert site.told == [f"drain gpu-2 nodegate: {WORDS[word]}"]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (OURS, "already drained"),
        (OPS, "drained by others: maintenance by ops"),
        (DOWN, "left alone: Slurm reports it as DOWN"),
    ],
)
@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_a_node_that_others_have_in_hand_is_left_as_it_is(
    site: Site, hook: hooks.Hook, node: slurm.Node, words: str
) -> None:
    site.word, site.node = Exit.UNFIT, node
    said = hook(asked(resume=True))
    assert said == HookResult(1 if hook is prolog else 0, f"unfit: GPU 3: lost; {words}")
    assert site.told == []


@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_where_slurm_does_not_answer_the_exit_code_tells_it(site: Site, hook: hooks.Hook) -> None:
    site.word, site.silent = Exit.UNFIT, True
    assert hook(asked()) == HookResult(1, "unfit: GPU 3: lost; not drained: scontrol did not answer within 5 s")


def test_a_fit_node_is_resumed_where_the_drain_is_ours_and_the_site_asks_for_it(site: Site) -> None:
    site.node = OURS
    assert healthcheck(asked()).exit == 0
    assert site.told == []
    assert healthcheck(asked(resume=True)).line == f"{WORDS[Exit.FIT]}; resumed, was nodegate: GPU 3: lost"
    assert site.told == ["undrain gpu-2"]


@pytest.mark.parametrize("node", [IDLE, OPS, DOWN, slurm.Node(OURS.states | {"DOWN"}, OURS.reason)])
def test_no_other_node_is_ever_resumed(site: Site, node: slurm.Node) -> None:
    site.node = node
    assert healthcheck(asked(resume=True)) == HookResult(0, WORDS[Exit.FIT], is_news=False)
    assert site.told == []


@pytest.mark.parametrize("word", [Exit.UNFIT, Exit.UNKNOWN, Exit.BUSY])
def test_only_a_fit_node_is_resumed(site: Site, word: Exit) -> None:
    site.node, site.word = OURS, word
    healthcheck(asked(resume=True))
    assert site.told == []


def test_a_prolog_says_of_which_job_it_did_not_see_the_port(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for nodes, port in (("gpu-[2-9]", hooks.PORT), ("gpu-[1-9]", "")):
        monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
        assert prolog(asked()).line == f"{WORDS[Exit.FIT]}{port}"


@pytest.mark.parametrize(
    ("every_gpu", "exclusive", "fresh_s"), [(False, False, 300.0), (True, False, 0.0), (True, True, 300.0)]
)
def test_for_a_job_with_every_gpu_no_word_from_before_the_last_job_will_do(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, every_gpu: bool, exclusive: bool, fresh_s: float
) -> None:
    heard: list[tuple[bool, float]] = []

    def answer(question: current_verdict.Question, *, fresh_s: float) -> Answer:
        heard.append((question.every_gpu, fresh_s))
        return Answer(Exit.FIT, "fit: x")

    monkeypatch.setattr(current_verdict, "answer", answer)
    monkeypatch.setattr(hooks.job, "gets_every_gpu", lambda _environ: every_gpu)
    prolog(HookOptions(current_verdict.Question(Path("/nowhere"), exclusive=exclusive)))
    assert heard == [(every_gpu, fresh_s)]
