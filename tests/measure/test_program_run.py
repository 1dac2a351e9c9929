"""What a program left on a node, in evidence and back."""

import json
from types import SimpleNamespace

import pytest

from nodegate.errors import CannotMeasure
from nodegate.measure.measurement import attempts_of, document
from nodegate.measure.program_run import MAX_KEPT, not_begun, not_run, run
from nodegate.records.program_run import Attempt, LinkEnd, LinkNotes, LinkPlan, Memory, MissingRail, Plan, ProgramRun
from nodegate.transport.session import Output


@pytest.mark.parametrize(
    "attempt",
    [
        Attempt((ProgramRun("all_reduce", ("all_reduce_perf", "-g", "8"), "# x\n", exit_code=0, plan=Plan(gpus=8)),)),
        Attempt((ProgramRun("all_reduce", (), "half", "why", None, timed_out=True, stuck=("77 nccl D",)),)),
        Attempt((ProgramRun("ib_write_bw", exit_code=1, truncated=True, started_epoch_s=1.5, duration_s=2.25),)),
        Attempt((not_run("x", CannotMeasure("it broke", next_step="see it"), Plan(link=LinkPlan("b"))),), node="a"),
        Attempt((ProgramRun("x", link=LinkNotes(client=LinkEnd(counted=()), peer_best=0.0)),), rails=("mlx5_0",)),
        Attempt((ProgramRun("x", plan=Plan(link=LinkPlan("b", memory=Memory.GPU))),), partners=3),
        Attempt(rails=("mlx5_0",), missing=(MissingRail("mlx5_1", "down", by_rule=True),)),
        not_begun(CannotMeasure("the run was ended", next_step="continue with --resume")),
    ],
)
def test_what_was_kept_comes_back_as_it_was(attempt):
    assert attempts_of(json.loads(json.dumps(document("x", [attempt])))) == (attempt,)


def test_a_stream_keeps_its_beginning_and_its_end():
    raw = b"first line\n" + b"x" * (MAX_KEPT * 3) + b"\nlast line\n"
    session = SimpleNamespace(run=lambda _argv, **_limits: Output(raw, b"", 0, 1.0))
    ran = run(session, "loud", ["loud"], timeout_s=1.0)
    assert ran.truncated
    assert ran.stdout.startswith("first line\n")
    assert ran.stdout.endswith("\nlast line\n")
    assert len(ran.stdout) < MAX_KEPT + 100
