"""What trainers say of a step that they computed again: the rank and GPU that computed wrongly, and how sure that is.

Forms: Megatron-LM megatron/core/rerun_state_machine.py (its log, and the file of --result-rejected-tracker-filename),
torchtitan torchtitan/observability/sdc_replayer.py.
"""

import pytest
from support.job_logs import joins, judge

from nodegate.knowledge.words import Cause

AT = "2026-08-10 15:36:{:02}.5"
MEGATRON = "ERROR:megatron.core.rerun_state_machine:"
OF_RANK = f"{MEGATRON}Rank 3, node gpu07, device 5, iteration #12: "
NAN = (
    f"{MEGATRON}Unexpected result nan on rank 3 at iteration #12 invocation #1 (message='found NaN in local grad norm')"
)
OTHER_RESULT = f"{OF_RANK}First rerun: unexpected result is not reproducible within the tolerance (2.3 != nan)!"
SAME_RESULT = f"{OF_RANK}First rerun: unexpected result is reproducible within the tolerance (nan = nan). Need to rerun"
SAME_GPU = (
    f"{MEGATRON}Got rescheduled on the same GPU. Need to resume again from the same checkpoint (node: gpu07, gpu: 5)"
)
CORRECT = f"{OF_RANK}Correct result (but possible Application error) (found NaN in local grad norm)!"
TRACKED = (
    "ts=2026-08-10 15:36:05.123456 node=gpu07 device=5 jobID=4711 rank=3 iteration=12 status={} result=nan"
    " message='found NaN in local forward loss calculation'"
)
REPLAY = (
    "torchtitan.observability.sdc_replayer.SDCReplayMismatch: SDC replay mismatch: step=12, local_step=1, replay=1,"
)
REPLAY += " rank=3, signature='grad:layers.0.attention.wq.weight'"
ON_GPU07 = {"node": "gpu07", "rank": 3, "gpu": 5}
HARDWARE, UNKNOWN, PROGRAM = Cause.HARDWARE, Cause.UNKNOWN, Cause.PROGRAM
REPLAYED = {
    f"rank{rank}.log": [*joins(f"gpu{rank:02}", 4, rank, 4, bus="19000", address="10.9.0.1"), f"[rank{rank}]: {REPLAY}"]
    for rank in (0, 3)
}

CASES = {
    "another result on the same GPU, half a minute after the first": (
        {"a.log": [f"{AT.format(5)} {NAN}", f"{AT.format(39)} {OTHER_RESULT}"]},
        {"root": "rerun_not_reproducible", "cause": HARDWARE, "sure": True, **ON_GPU07},
    ),
    "the same result on the same GPU decides nothing": (
        {"a.log": [f"{AT.format(5)} {NAN}", f"{AT.format(39)} {SAME_RESULT}"]},
        {"root": "rerun_undecided", "cause": UNKNOWN, "sure": False, **ON_GPU07},
    ),
    "nor does a second start": ({"a.log": [SAME_GPU]}, {"root": "rerun_undecided", "node": "gpu07", "gpu": 5}),
    "another GPU with the same result": ({"a.log": [CORRECT]}, {"root": "nan_gradient", "cause": PROGRAM, **ON_GPU07}),
    "another result on another GPU is of the run before": (
        {"a.log": [f"{OF_RANK}Second rerun: unexpected result is not reproducible on a different GPU, therefore was"]},
        {"root": "rerun_other_gpu", "cause": HARDWARE, "says": "hardware, in the run before this one: "},
    ),
    "the tracker's file, another result": (
        {"tracker.txt": [TRACKED.format("initial_run"), TRACKED.format("first_rerun_not_reproducible")]},
        {"root": "rerun_not_reproducible", "cause": HARDWARE, **ON_GPU07},
    ),
    "the tracker's file, the same result": (
        {"tracker.txt": [TRACKED.format("initial_run"), TRACKED.format("first_rerun_reproducible")]},
        {"root": "rerun_undecided", "cause": UNKNOWN, **ON_GPU07},
    ),
    "every rank prints a replay's mismatch, and names the one": (
        REPLAYED,
        {"root": "sdc_replay", "cause": HARDWARE, "sure": False, "rank": 3, "node": "gpu03", "gpu": 4},
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_a_step_that_was_computed_again(tmp_path, files, expected):
    judge(tmp_path, files, **expected)
