"""What each hook does about each word: with the exit code, and with Slurm. Real Slurm has it in lab/tests/slurm."""

from pathlib import Path

import pytest
from support.slurm_nodes import DRAIN, SlurmNodes

from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, guard, hooks
from nodegate.hook.current_verdict import Answer
from nodegate.hook.hooks import HookOptions, HookResult, epilog, healthcheck, prolog

WORDS = {
    Exit.FIT: "fit: 77 checks passed",
    Exit.UNFIT: "unfit: GPU 3: lost",
    Exit.UNKNOWN: "could not tell: no probe",
    Exit.BUSY: "busy: another run holds this node",
}
LOST = "nodegate: GPU 3: lost"
OURS = (DRAIN, LOST)
OPS = (DRAIN, "maintenance by ops")
DOWN = ({"DOWN"}, "Not responding")


class Site(SlurmNodes):
    """A node of twenty, and what Slurm was told of it."""

    def __init__(self, patch):
        super().__init__(patch, {"gpu": [f"gpu-{number}" for number in range(20)]})
        self.word = Exit.FIT
        patch.setattr(current_verdict, "answer", lambda *_, **__: Answer(self.word, WORDS[self.word]))
        patch.setenv("SLURMD_NODENAME", "gpu-2")
        patch.delenv("SLURM_JOB_NODELIST", raising=False)


@pytest.fixture
def site(monkeypatch):
    return Site(monkeypatch)


def asked(**settings):
    return HookOptions(current_verdict.Question(Path("/nowhere")), **settings)


@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
@pytest.mark.parametrize("word", [Exit.FIT, Exit.UNKNOWN, Exit.BUSY])
def test_what_is_no_verdict_on_the_hardware_lets_work_go_on(site, hook, word):
    site.word = word
    port = hooks.PORT if (hook, word) == (prolog, Exit.FIT) else ""
    assert hook(asked()) == HookResult(0, f"{WORDS[word]}{port}", is_news=word is not Exit.FIT)
    assert site.told == []


@pytest.mark.parametrize(("hook", "code"), [(prolog, 1), (epilog, 0), (healthcheck, 0)])
def test_an_unfit_node_is_drained_and_its_job_held(site, hook, code):
    site.word = Exit.UNFIT
    assert hook(asked()) == HookResult(code, "unfit: GPU 3: lost; drained")
    assert site.told == ["drain gpu-2 nodegate: GPU 3: lost"]


@pytest.mark.parametrize("word", [Exit.UNKNOWN, Exit.BUSY])
@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_strict_stops_work_for_them_too_and_between_jobs_leaves_a_run_its_node(site, hook, word):
    site.word = word
    said = hook(asked(strict=True))
    assert said.exit == (int(word) if hook is prolog else 0)
    is_left = word is Exit.BUSY and hook is not prolog
    assert site.told == ([] if is_left else [f"drain gpu-2 nodegate: {WORDS[word]}"])


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (OURS, "already drained"),
        (OPS, "drained by others: maintenance by ops"),
        (DOWN, "left alone: Slurm reports it as DOWN"),
    ],
)
@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_a_node_that_others_have_in_hand_is_left_as_it_is(site, hook, node, words):
    site.word = Exit.UNFIT
    site.set("gpu-2", *node)
    said = hook(asked(resume=True))
    is_drained = node is not DOWN  # else Slurm would drain it for a prolog that fails
    assert said == HookResult(int(hook is prolog and is_drained), f"unfit: GPU 3: lost; {words}")
    assert site.told == []


@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
def test_where_slurm_does_not_answer_nothing_is_drained_by_the_exit_code_either(site, hook):
    site.word, site.silent = Exit.UNFIT, True
    assert hook(asked()) == HookResult(0, "unfit: GPU 3: lost; not drained: scontrol did not answer within 5 s")


@pytest.mark.parametrize("hook", [prolog, epilog, healthcheck])
@pytest.mark.parametrize("strict", [False, True])
def test_observing_and_with_the_breaker_open_no_hook_fails(site, hook, *, strict):
    site.word = Exit.UNKNOWN if strict else Exit.UNFIT
    would = f"nodegate: {WORDS[site.word].removeprefix('unfit: ')}"
    said = hook(asked(strict=strict, rules=guard.Rules(observe=True)))
    assert said == HookResult(0, f"{WORDS[site.word]}; would be drained, mode observe (reason {would})")
    site.set("gpu-7", reason=LOST)
    said = hook(asked(strict=strict))
    assert (said.exit, said.done, site.told) == (0, guard.OPEN, [])
    assert "1 of 20 nodes of partition gpu within 15 minutes, 1 may be" in said.line


def test_a_fit_node_is_resumed_where_the_drain_is_ours_and_the_site_asks_for_it(site):
    site.set("gpu-2", *OURS)
    assert healthcheck(asked()).exit == 0
    assert site.told == []
    assert healthcheck(asked(resume=True)).line == f"{WORDS[Exit.FIT]}; resumed, was nodegate: GPU 3: lost"
    assert site.told == ["undrain gpu-2"]


@pytest.mark.parametrize("node", [({"IDLE"}, ""), OPS, DOWN, (DRAIN | {"DOWN"}, LOST)])
def test_no_other_node_is_ever_resumed(site, node):
    site.set("gpu-2", *node)
    assert healthcheck(asked(resume=True)) == HookResult(0, WORDS[Exit.FIT], is_news=False)
    assert site.told == []


@pytest.mark.parametrize("word", [Exit.UNFIT, Exit.UNKNOWN, Exit.BUSY])
def test_only_a_fit_node_is_resumed(site, word):
    site.word = word
    site.set("gpu-2", *OURS)
    healthcheck(asked(resume=True))
    assert site.told == []


def test_a_prolog_says_of_which_job_it_did_not_see_the_port(site, monkeypatch):
    for nodes, port in (("gpu-[2-9]", hooks.PORT), ("gpu-[1-9]", "")):
        monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
        assert prolog(asked()).line == f"{WORDS[Exit.FIT]}{port}"


@pytest.mark.parametrize(
    ("every_gpu", "exclusive", "fresh_s"), [(False, False, 300.0), (True, False, 0.0), (True, True, 300.0)]
)
def test_for_a_job_with_every_gpu_no_word_from_before_the_last_job_will_do(
    site, monkeypatch, *, every_gpu, exclusive, fresh_s
):
    heard: list[tuple[bool, float]] = []

    def answer(question, *, fresh_s):
        heard.append((question.every_gpu, fresh_s))
        return Answer(Exit.FIT, "fit: x")

    monkeypatch.setattr(current_verdict, "answer", answer)
    monkeypatch.setattr(hooks, "gets_every_gpu", lambda _environ: every_gpu)
    prolog(HookOptions(current_verdict.Question(Path("/nowhere"), exclusive=exclusive)))
    assert heard == [(every_gpu, fresh_s)]
