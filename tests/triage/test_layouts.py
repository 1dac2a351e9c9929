"""One failed job in every layout that people hand in: the answer does not depend on how its logs were collected."""

import json

import pytest
from support.job_logs import NOW_S, answered, write
from support.whole_jobs import LAYOUTS, NODES, job, kernel_log

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
