"""Rank, node and GPU by prefix, text and file name."""

# ruff: noqa: RUF001 - Chinese punctuation
import pytest

from nodegate.cli import main
from nodegate.triage import place

OF_NCCL = "gpu-11:393849:395082 [6] transport/net_ib.cc:253 NCCL WARN boom"
OF_A_COLLECTOR = '{"@timestamp": "2026-11-21T08:15:44Z", "pod": "job-1", "host": "gpu07", "message": "[rank3]: x"}'
IN_KUBERNETES = '{"log": "boom\\n", "kubernetes": {"pod_name": "job-1", "host": "gpu07"}}'


@pytest.mark.parametrize(
    ("line", "where", "text"),
    [
        ("vm-07-14: boom", (None, "", "vm-07-14", None), "boom"),
        ("RuntimeError: boom", (None, "", "", None), "RuntimeError: boom"),
        ("epoch3: boom", (None, "", "", None), "epoch3: boom"),
        (f"[2026-02-02 12:15:56] {OF_NCCL}", (None, "", "gpu-11", 6), OF_NCCL),
        ("RuntimeError: Rank 180, node gpu05-T14, device 2, iteration 3: x", (180, "", "gpu05-T14", 2), None),
        ("E external/xla/xla/stream_executor/a.cc:414] w-31 rank 31: boom", (31, "", "", None), "boom"),
        ("E external/xla/xla/a.cc:414] Peer rank 31: boom", (None, "", "", None), None),
        ("[pod/job-worker-3/main] boom", (None, "job-worker-3", "", None), "boom"),
        ("[pod/job-worker-3/main] [rank9]: boom", (9, "job-worker-3", "", None), "boom"),
        ("job-worker-3   | [rank9]: boom", (9, "job-worker-3", "", None), "boom"),
        ("[worker-11] boom", (None, "worker-11", "", None), "boom"),
        ("[node-11] boom", (None, "", "node-11", None), "boom"),
        ("2026年11月20日 08：15：44 [rank2]: boom", (2, "", "", None), "boom"),
        (OF_A_COLLECTOR, (3, "job-1", "gpu07", None), "x"),
        (IN_KUBERNETES, (None, "job-1", "gpu07", None), "boom"),
        ('{"loss": 1.2, "step": 7}', (None, "", "", None), '{"loss": 1.2, "step": 7}'),
        ("INFO   | 2026-11-21 08:15:44 | creating trainer", (None, "", "", None), None),
    ],
)
def test_a_line_tells_its_place_and_a_pod_is_no_node(line, where, text):
    found = place.of_line(line)
    assert (found.rank, found.pod, found.node, found.gpu) == where
    assert found.text == (line if text is None else text)
    assert found.source == (where[1] or where[2]) or found.gpu is not None


def test_stern_begins_every_line_with_pod_and_container():
    lines = [f"job-a-worker-{pod} pytorch [rank{pod}]: step {step}" for step in range(9) for pod in range(2)]
    assert place.is_stern(lines)
    assert place.of_line(lines[1], stern=True).pod == "job-a-worker-1"
    assert not place.is_stern(["epoch-1 done in 3 s", "epoch-2 done in 3 s"])
    assert not place.is_stern(["Rank 1 received tensor: 42"] * 5)


@pytest.mark.parametrize(
    ("name", "rank", "local_rank", "node"),
    [
        ("logs/rank_12.log", 12, None, ""),
        ("logs/gpu007_rank12.log.gz", 12, None, "gpu007"),
        ("gpu007/rank3.err", 3, None, "gpu007"),
        ("out/12.out", 12, None, ""),
        ("slurm-123456.out", None, None, ""),
        ("attempt_0/3/stderr.log", None, 3, ""),
        ("node-3.dmesg", None, None, "node-3"),
        ("dmesg-gpu-a42.txt", None, None, "gpu-a42"),
        ("dmesg-h100-03.txt", None, None, "h100-03"),
        ("gpu12-dmesg.txt", None, None, "gpu12"),
        ("dmesg-a100.txt", None, None, ""),
        ("dmesg-rank3.txt", 3, None, ""),
        ("sft-gpu-a42.log", None, None, ""),
        ("tr1-dgxa100/train_h100_llama70b_2026.log", None, None, ""),
    ],
)
def test_a_file_name_tells_its_place_and_a_model_s_name_is_none(name, rank, local_rank, node):
    found = place.of_path(name)
    assert (found.rank, found.local_rank, found.node) == (rank, local_rank, node)


@pytest.mark.parametrize(
    ("other", "said"), [("gpu02/rank1.log", "node (local rank 1)"), ("gpu02/rank2.log", "node of rank 1")]
)
def test_a_number_that_the_files_of_each_node_have_is_no_global_rank(tmp_path, capsys, other, said):
    for name, line in {
        "gpu01/rank1.log": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        other: "[rank9]:[E302 08:30:00.123456 ProcessGroupNCCL.cpp:632] [Rank 9] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds",
    }.items():
        log = tmp_path / name
        log.parent.mkdir(exist_ok=True)
        log.write_text(f"[2026-03-02 08:20:00] node {name[:5]}: iteration 5\n[2026-03-02 08:20:02] {line}\n")
    main(["triage", str(tmp_path)])
    assert f"move the job off the {said} because" in capsys.readouterr().out
