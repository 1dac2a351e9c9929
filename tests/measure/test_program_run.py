"""What a program left on a node, in evidence and back."""

from __future__ import annotations

import json

import pytest

from nodegate.errors import CannotMeasure
from nodegate.measure.program_run import MAX_KEPT, ProgramRun, from_json, kept, not_run
from nodegate.transport.session import Output


@pytest.mark.parametrize(
    "ran",
    [
        ProgramRun("all_reduce", ("all_reduce_perf", "-g", "8"), "# nccl-tests\n", "", 0, labels={"gpus": "8"}),
        ProgramRun("all_reduce", ("all_reduce_perf",), "half", "why", None, timed_out=True, stuck=("77 nccl D",)),
        ProgramRun("ib_write_bw", exit_code=1, truncated=True, started_epoch_s=1.5, duration_s=2.25),
        not_run("", CannotMeasure("the run was ended", next_step="continue with --resume")),
    ],
)
def test_what_was_kept_comes_back_as_it_was(ran: ProgramRun) -> None:
    assert from_json(json.loads(json.dumps(ran.to_json()))) == ran


def test_an_exit_code_of_zero_is_not_the_same_as_none() -> None:
    assert from_json(ProgramRun("a", exit_code=0).to_json()).exit_code == 0
    assert from_json(ProgramRun("a", exit_code=None).to_json()).exit_code is None


def test_a_stream_keeps_its_beginning_and_its_end() -> None:
    raw = b"first line\n" + b"x" * (MAX_KEPT * 3) + b"\nlast line\n"
    ran = kept("loud", ["loud"], Output(raw, b"", 0, 1.0), started_epoch_s=0.0, labels={})
    assert ran.truncated
    assert ran.stdout.startswith("first line\n")
    assert ran.stdout.endswith("\nlast line\n")
    assert len(ran.stdout) < MAX_KEPT + 100


@pytest.mark.parametrize("value", [None, [], "text", {"what": 7}, {}, {"stdout": "no what"}])
def test_evidence_in_another_form_is_refused(value: object) -> None:
    with pytest.raises(CannotMeasure, match="malformed"):
        from_json(value)


def test_values_of_the_wrong_kind_never_pass_for_good_ones() -> None:
    ran = from_json({"what": "a", "exit_code": True, "duration_s": float("inf"), "argv": "rm -rf", "timed_out": 1})
    assert ran == ProgramRun("a")
