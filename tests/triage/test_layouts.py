"""One failed job in every layout that people hand in: the answer does not depend on how its logs were collected."""

# ruff: noqa: RUF001 - Chinese punctuation
import json
from datetime import timedelta

import pytest
from support.job_logs import NOW_S, answered, iteration, joins, judge, times_out, write
from support.whole_jobs import LAYOUTS, NODES, START, job, kernel_log

from nodegate.cli import main
from nodegate.knowledge.words import Cause
from nodegate.triage import render
from nodegate.triage.triage import triage

LOST = ("RuntimeError: CUDA error: unknown error", "Compile with `TORCH_USE_CUDA_DSA` to enable assertions.")
OUT_OF_MEMORY = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 2 has a total capacity",)
LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


@LAYOUT
def test_a_lost_gpu_is_found_on_its_node_with_its_rank(tmp_path, layout):
    LAYOUTS[layout](tmp_path, job(last_words=LOST))
    kernel_log(tmp_path, code=79, text="pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    found = answered(tmp_path)
    assert (found.cause, found.sure, found.where.node, found.where.rank) == (Cause.HARDWARE, True, NODES[1], 6)
    assert found.device == "0000:9b:00.0"
    assert "move the job off gpu-a100-18 because the GPU no longer answers" in found.sentence.en


@LAYOUT
def test_the_rank_without_memory_is_found_before_the_hang_of_the_others(tmp_path, layout):
    LAYOUTS[layout](tmp_path, job(broken=2, last_words=OUT_OF_MEMORY))
    found = answered(tmp_path)
    assert (found.cause, found.root.kind.id, found.where.rank) == (Cause.PROGRAM, "cuda_oom", 2)


@LAYOUT
def test_the_rank_that_is_silent_in_a_hang_is_named(tmp_path, layout):
    LAYOUTS[layout](tmp_path, job())
    found = answered(tmp_path)
    assert (found.failed, found.cause, found.where.rank) == (True, Cause.UNKNOWN, 6)
    assert "rank 6 did not reach a collective" in found.sentence.en
    assert found.where.node == NODES[1]


@LAYOUT
def test_a_warning_of_the_kernel_counts_beside_an_error_that_nobody_can_name(tmp_path, layout):
    LAYOUTS[layout](tmp_path, job(last_words=("RuntimeError: CUDA error: unspecified launch failure",)))
    kernel_log(tmp_path, code=109, text="pid=31, name=python3, Ch 00000010, errorString CTX SWITCH TIMEOUT")
    found = answered(tmp_path)
    assert (found.sure, found.where.node, found.device) == (False, NODES[1], "0000:9b:00.0")
    assert "CTX SWITCH TIMEOUT" in render.text(found)


@pytest.mark.parametrize("form", ["dmesg -T", "syslog"])
@pytest.mark.parametrize("zone_h", [8, 5.5, -7, 17, -16.5])
def test_a_kernel_log_of_an_unnamed_zone_is_read_by_the_zone_that_fits_and_says_so(tmp_path, form, zone_h):
    """17: the job's containers at UTC-8 and their hosts at UTC+9."""
    LAYOUTS["a file a worker"](tmp_path, job(last_words=LOST))
    kernel_log(tmp_path, code=79, text="GPU has fallen off the bus.", form=form, zone_h=zone_h)
    found = answered(tmp_path)
    assert (found.cause, found.sure, found.where.node) == (Cause.HARDWARE, False, NODES[1])
    hours, minutes = divmod(round(abs(zone_h) * 60), 60)
    assert any(f"UTC{'-' if zone_h < 0 else '+'}{hours:02}:{minutes:02}" in reason.en for reason in found.why)


def test_the_logs_of_an_earlier_year_keep_it(tmp_path):
    LAYOUTS["a file a worker"](tmp_path, job(last_words=LOST))
    kernel_log(tmp_path, code=119, text="pid=31, name=python3, Timeout after 6s of waiting for RPC", form="syslog")
    found = triage([str(tmp_path)], now_s=NOW_S + 700 * 86_400)
    assert (found.cause, found.where.node) == (Cause.HARDWARE, NODES[1])
    assert 0 <= found.followed[0].printed_s - found.began_s < 3600
    assert not any(" h " in reason.en for reason in found.why)


def test_without_a_word_on_its_node_a_pod_is_not_offered_as_one(tmp_path):
    workers = {
        name: [(when, text.partition(" pod ")[0]) for when, text in own]
        for name, own in job(last_words=("RuntimeError: CUDA error: uncorrectable ECC error encountered",)).items()
    }
    LAYOUTS["kubectl logs -l --prefix"](tmp_path, workers)
    found = answered(tmp_path)
    assert (found.where.node, found.where.pod) == ("", "moe-worker-1")
    assert found.sentence.en.startswith("hardware: move the job off the node of pod moe-worker-1 because")


def at(second, text):
    when = START + timedelta(seconds=second)
    return when, f"{when:%Y-%m-%d %H:%M:%S} {text}"


def undated(second, text):
    return START + timedelta(seconds=second), text


def trains(until):
    return [at(30 * number, iteration("07:00:00", number).partition("] ")[2]) for number in range(1, until)]


def beats(worker, until):
    return [at(second, f"heartbeat of {worker}") for second in range(10, until, 20)]


def workers(*said):
    """Only the last one prints iterations, as Megatron-LM does."""
    return {f"lm-worker-{each}": [at(each, f"starts, RANK: {each}"), *lines] for each, lines in enumerate(said)}


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB. GPU 0 is full."
SHM = "[rank0]: RuntimeError: DataLoader worker (pid 8143) is killed by signal: Bus error. It is possible that"
SHM += " dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
HALF = [line for rank in range(4, 8) for line in joins("gpu-n1", rank % 4, rank, 8, address="10.9.0.1")]
HANG = [undated(1300, times_out(rank, "07:21:40.1")) for rank in range(3)]
UNKNOWN = {"failed": True, "cause": Cause.UNKNOWN, "sure": False}
STORIES = {
    "the memory of a host is full": (workers([undated(1180, SHM)], [], trains(40)), {"cause": Cause.HOST}),
    "every rank times out": (workers(HANG[:1], HANG[1:2], [*trains(40), HANG[2]]), {"failed": True, "rank": None}),
    "the other half of the ranks is not there": (
        {"lm-worker-1": [undated(5, line) for line in HALF] + [at(700, times_out(4, "07:11:40.1"))]},
        {**UNKNOWN, "rank": None},
    ),
    "last words that nobody knows": (workers([], [], [*trains(40), at(1300, "lost the quorum")]), UNKNOWN),
    "last words in Chinese": (workers([], [], [*trains(40), at(1300, "训练失败：数据管道断开")]), UNKNOWN),
    "nothing is known": (workers(*[[at(3, "reads the configuration"), undated(4, "prepares")]] * 3), UNKNOWN),
    "one worker stops": (workers(beats(0, 300), beats(1, 1800), beats(2, 1800)), UNKNOWN),
    "the training goes on": (workers([], [], trains(40)), {"failed": False}),
    "an error is followed by lines of its worker": (
        workers([undated(2, OOM), at(1500, "evaluation begins")], [], trains(60)),
        {"failed": False},
    ),
    "it ends well": (workers([], [], [*trains(40), at(1300, "Training completed in 1290 s")]), {"failed": False}),
}


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "cat *.log"])  # it names no worker
@pytest.mark.parametrize(("lines", "expected"), STORIES.values(), ids=STORIES)
def test_no_story_is_told_otherwise_in_another_layout(tmp_path, layout, lines, expected):
    LAYOUTS[layout](tmp_path, lines)
    sentence = judge(tmp_path, {}, **expected).sentence.en
    assert ("no error in these logs" in sentence) is not expected.get("failed", True)
    assert "did not reach" not in sentence


LABELS = ("[rank{}]: ", "{}: ", "[1,{}]<stderr>:", "[prterun-h@1,{}]<stderr>: ", "[Rank {}/16] ", "Rank {}: ", "[{}] ")


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("layout", ["compose", "the last worker first", "stern"])
def test_one_rank_of_sixteen_is_found_whatever_labels_the_ranks(tmp_path, layout, label):
    """Its GPU breaks, and the other ranks lose it."""
    lost = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
    said = [
        [undated(5, line) for rank in ranks for line in joins(f"gpu-n{node}", 0, rank, 16, address=f"10.9.0.{node}")]
        for node, ranks in enumerate((range(4), range(4, 8), range(8, 12), range(12, 16)))
    ]
    said[3] += trains(39)
    said[1].append(undated(1180, f"{label.format(5)}RuntimeError: CUDA error: uncorrectable ECC error encountered"))
    for rank in (*range(5), *range(6, 16)):
        said[rank // 4].append(at(1190, label.format(rank) + lost))
    LAYOUTS[layout](tmp_path, workers(*said))
    judge(tmp_path, {}, cause=Cause.HARDWARE, rank=5, node="gpu-n1")


@pytest.mark.parametrize(
    "text",
    [
        "pod,node\nmoe-worker-1,gpu-a100-18\n",
        (
            "NAME           READY   STATUS    RESTARTS     AGE   IP           NODE          NOMINATED NODE\n"
            "moe-worker-1   1/1     Running   2 (3h ago)   5h    10.0.3.12    gpu-a100-18   <none>\n"
        ),
        (
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: moe-worker-1\n"
            "    ownerReferences:\n    - kind: Job\n      name: moe\n  spec:\n    nodeName: gpu-a100-18\n"
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: moe-worker-2\n  spec: {}\nkind: List\n"
        ),
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: moe-worker-1\nspec:\n  nodeName: gpu-a100-18\n---\n",
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {"kind": "Pod", "metadata": {"name": "moe-worker-1"}, "spec": {"nodeName": "gpu-a100-18"}},
                    {"kind": "Node", "metadata": {"name": "x"}, "spec": {"nodeName": "y"}},
                    7,
                ],
            }
        ),
    ],
    ids=["csv", "kubectl", "yaml", "yaml of one pod", "json"],
)
def test_a_map_tells_where_a_pod_ran(tmp_path, capsys, text):
    write(tmp_path, "logs/moe-worker-1.log", "[rank6]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    (tmp_path / "map.txt").write_text(text)
    assert main(["triage", str(tmp_path / "logs"), "--map", str(tmp_path / "map.txt")]) == 0
    assert capsys.readouterr().out.startswith("hardware: move the job off gpu-a100-18 because")


@pytest.mark.parametrize(
    "text", ['{"kind": "List", "items": [', "kind: Pod\nmetadata: [", "kind: Pod\nspec: 7\n", "nothing\n"]
)
def test_a_map_of_broken_objects_or_of_nothing_is_refused(tmp_path, capsys, text):
    (tmp_path / "map.txt").write_text(text)
    assert main(["triage", str(write(tmp_path, "a.log", "x")), "--map", str(tmp_path / "map.txt")]) == 2
    said = capsys.readouterr().err
    assert "map.txt" in said
    assert "names no pod and node" in said or text != "nothing\n"
