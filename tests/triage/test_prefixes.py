"""What stands before a line's text, and the name of its file: a rank, node, pod, GPU and time in all forms."""

# ruff: noqa: RUF001 - Chinese punctuation
# ruff: noqa: E501 - a line a form

import pytest
from support.job_logs import judge

from nodegate.cli import main
from nodegate.triage import place
from nodegate.triage.clock import Times
from nodegate.triage.triage import triage

SAID = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
# rank, node, time (a date, a time of day, none), prefix (%s: the text is within it), who prints it
FORMS = r"""
2~~-~[prterun-host-1234@1,2]<stderr>: ~Open MPI 5: mpirun --output tag (its manual)
2~gpu07~-~[prterun-host-1234@1,2][gpu07:4242]<stderr>: ~PRRTE: --output tag-detailed (prterun's manual)
2~~date~Thu Feb  5 18:00:19 2026[1,2]<stderr>:~Open MPI 4: --timestamp-output --tag-output
2~~-~[2]<stderr>:~Horovod: horovod/runner/gloo_run.py
2~~-~[2] ~MPICH and Intel MPI: mpiexec -prepend-rank (Hydra)
2~~-~RANK_2: ~Hydra: -prepend-pattern 'RANK_%r: '
2~~-~02: ~srun --label, eleven tasks or more
2~gpu07.cm.site.gov~-~gpu07.cm.site.gov 2: ~HPE PALS: mpiexec --line-label
~~-~[default2]:~torchrun --tee: a local rank
2~~date~[rank2]:[titan] 2026-02-05 18:00:19,754 - root - ERROR - ~torchtitan: run_train.sh, --role rank --tee 3
2~gpu07~date~gpu07: [2026-02-05 18:00:19,754] [INFO] [logging.py:96:log_dist] [Rank 2] ~DeepSpeed: log_dist under pdsh or clush
2~~date~[2026-02-05 18:00:19,754] [ERROR] [axolotl.train.step:88] [PID:4242] [RANK:2] ~axolotl: logging_config.py
2~~date~[NeMo E 2026-02-05 18:00:19 trainer:88 rank:2] ~NeMo: formatters/base.py, debug
2~~date~2026-02-05 18:00:19,754: rank2[4242][MainThread]: ERROR: composer.trainer: ~Composer, LLM Foundry: command_utils/train.py
2~~date~[Rank 2] 2026-02-05 18:00:19,754 ERROR fairseq2.trainer - ~fairseq2: logging.py
2~~-~[rank: 2] ~Lightning: rank_prefixed_message
2~~date~[2026-02-05T18:00:19.754321Z] 5c902731 [rank=2] || ERROR: [62] root: ~Determined AI: task logs
~gpu07~date~2026-02-05 18:00:19.754\tgpu07:2\tolmo.train:88\tCRITICAL\t~OLMo: olmo/util.py, host and local rank
2~~date~2026-02-05T18:00:19 - 2 - levanter.trainer - trainer.py:88 - ERROR :: ~Levanter: utils/logging.py
2~~date~(VllmWorker rank=2 pid=4242) ERROR 02-05 18:00:19 [multiproc_executor.py:487] ~vLLM: v1/executor
2~10.0.0.7~-~(MegatronPolicyWorker[rank=2] pid=4242, ip=10.0.0.7) ~NeMo RL under Ray
~10.164.0.57~-~(worker1, rank=1, pid=15406, ip=10.164.0.57) ~SkyPilot: the rank of a node
2~~date~[2026-02-05 18:00:19 TP2] ~SGLang: configure_logger
~~date~[2026-02-05 18:00:19 DP1 TP2] ~SGLang, several replicas: no rank of the job
2~~-~[pod/job-worker-1/pytorch] [rank2]: ~kubectl logs --prefix
2~~-~default/job-worker-1[pytorch]: [rank2]: ~kail
2~~-~[job-worker-1 pytorch] [rank2]: ~kubetail
2~gpu07~-~train.1.v3x8sz2k9w1p@gpu07    | [rank2]: ~docker service logs
2~~-~trainer-1-1  | [rank2]: ~docker compose logs
2~gpu07~date~Thu 2026-02-05 18:00:19 UTC gpu07 train[2210]: [rank2]: ~journalctl -o short-full
2~gpu07~date~2026-02-05T18:00:19+0000 gpu07 train[2210]: [rank2]: ~journalctl -o short-iso
2~gpu07~-~[ 1234.567890] gpu07 train[2210]: [rank2]: ~journalctl -o short-monotonic
2~gpu07~date~1770314419.754321 gpu07 train[2210]: [rank2]: ~journalctl -o short-unix
2~gpu07~date~<27>Feb  5 18:00:19 gpu07 train[2210]: [rank2]: ~RFC 3164, with its priority
2~gpu07~date~<27>1 2026-02-05T18:00:19.754Z gpu07 train 2210 - - [rank2]: ~RFC 5424
2~~date~{"log":"[rank2]: %s\n","stream":"stderr","time":"2026-02-05T18:00:19.754Z"}~docker json-file
2~~date~{"event": "%s", "level": "error", "rank": 2, "timestamp": "2026-02-05T18:00:19Z"}~structlog: JSONRenderer
2~~date~{"text": "%s\n", "record": {"extra": {"rank": 2}, "message": "%s", "time": {"repr": "2026-02-05 18:00:19.754+00:00"}}}~loguru: serialize=True
2~~date~time="2026-02-05T18:00:19Z" level=error rank=2 msg="%s"~logrus: TextFormatter
2~~date~timestamp='2026-02-05T18:00:19Z' level='error' rank=2 event='%s'~structlog: KeyValueRenderer
2~~date~2026-02-05T18:00:19Z [error    ] %s [trainer] rank=2~structlog: ConsoleRenderer
2~~date~2026-02-05 18:00:19.754 | ERROR    | train:step:88 | rank=2 - ~loguru: {extra[rank]} in its format
2~~date~[0] kube.var.log.job: [[1770314419.754, {}], {"log"=>"[rank2]: %s", "stream"=>"stderr"}]~fluent-bit: stdout output, [0] counts records
2~gpu07~date~{"date":1770314419.754,"log":"[rank2]: %s","kubernetes":{"pod_name":"job-1","host":"gpu07"}}~fluent-bit: kubernetes filter
2~~date~2026-02-05T18:00:19.754000+00:00 job/algo-3-1770314419 [rank2]: ~aws logs tail
2~~date~ERROR\t2026-02-05 18:00:19 +0000\tworkerpool1-1\t[rank2]: ~gcloud ai custom-jobs stream-logs
2~gpu07~-~gpu07\t[rank2]: ~GNU parallel --tag
~gpu07~clock~[1] 18:00:19 [FAILURE] gpu07 ~parallel-ssh: the order in which hosts ended
2~~-~Rank 2: ~Megatron-Core: prints of its checks
2~~-~[Rank 2/16] ~labels of training scripts
2~~-~Global Rank: [2/16] | Local Rank: [2/8] | ~loguru formats of training templates
2~gpu07~-~[gpu07:mpi_rank_2][error_sighandler] ~MVAPICH2
~gpu07~date~[1770314419.754321] [gpu07:4242 :0]  ib_mlx5_log.c:177  UCX  ERROR ~UCX: ucs/debug/log.c
2~~date~[rank2]:[E205 18:00:19.754321 ProcessGroupNCCL.cpp:616] [PG ID 3 PG GUID 9(tp) Rank 1] ~PyTorch: a group's rank behind the job's
~~date~I0205 18:00:19.754321 4242 train.py:88] ~absl and glog: a thread, a line
2~10.0.0.7~date~(RayTrainWorker pid=4242, ip=10.0.0.7) 2026-02-05 18:00:19,754 ERROR train.py:88 -- [rank2]: ~Ray Train
~~date~[02/05 18:00:19 d2.engine.train_loop]: ~detectron2: utils/logger.py
~~date~2026:02:05-18:00:19:( 4242) |CCL_ERROR| ~oneCCL: common/log
2~~clock~[18:00:19] [RANK 2] ~trlX: utils/logging.py
2~~-~[rank2]: ~torch.distributed: exception hook
2~~clock~18:00:19,754 [rank2]: ~Python logging with %H:%M:%S
2~~clock~[18:00:19] [rank2]: ~rich.logging
2~~date~[2026-02-05 18:00:19,754] [INFO] [rank2]: ~DeepSpeed: deepspeed/utils/logging.py
2~~date~2026-02-05 18:00:19.754 | ERROR    | __main__:step:88 - [rank2]: ~loguru's default
2~~date~1770314419.754 [rank2]: ~ts -s of moreutils
2~~date~Feb 05 18:00:19 [rank2]: ~ts of moreutils
2~gpu-c-11~date~Feb 05 18:00:19 gpu-c-11 finetune[2210]: [rank2]: ~journalctl -o short
2~gpu-e-7~-~[gpu-e-7:12345] [rank2]: ~Open MPI: opal/util/output
2~~-~[1,2]<stderr>:~mpirun --tag-output
2~~-~[1,mpirank:2,algo-1]<stderr>:~SageMaker's MPI launcher
2~10.7.4.21~-~10.7.4.21: 10.7.4.21: [rank2]: ~pdsh over DeepSpeed
2~gpu07~-~gpu07: [rank2]: ~pdsh
2~~-~stderr: [rank2]: ~a wrapper's word
2~~-~> [rank2]: ~quoted in a mail
2~~-~[2]: ~tmux and parallel tags
2~~-~(Rank 2) ~Colossal-AI: DistributedLogger
2~~-~[trainer2|0]:~torchx: local scheduler
2~~date~02-05 18:00:19 [rank2]: ~a date without a year
2~~-~[MODEL_PARALLEL:ERROR:RANK:2] ~a word before it
2~~date~[2026-02-05 18:00:19] | [PID:4242 RANK:2] | [ERROR] | [train.py:step():88] ~among others in brackets
2~~date~2026-02-05 18:00:19 ERROR rank=2 trainer: ~behind a level
2~~-~[rank=2, local_rank=1] ~two ranks in brackets
2~~-~[node 1 | rank 2] ~with its node's number
2~~-~【rank 2】 ~Chinese brackets
2~~-~\x1b[36m[rank2]:\x1b[0m ~in colour
2~~clock~18:00:19 INFO train.py:88] [rank2]: ~absl with a bare clock
"""
CASES = [line.split("~") for line in FORMS.strip("\n").splitlines()]
PRINTED_S = 1_770_314_419.0  # 2026-02-05 18:00:19 UTC


@pytest.mark.parametrize(("rank", "node", "time", "prefix", "_source"), CASES, ids=[case[4] for case in CASES])
def test_what_stands_before_a_text_names_its_rank_node_and_time(rank, node, time, prefix, _source):
    before = prefix.replace("\\t", "\t").replace("\\x1b", "\x1b")
    line = before.replace("%s", SAID) if "%s" in before else before + SAID
    found, stamp = place.of_line(line), Times(PRINTED_S + 86_400).first(line)
    assert (found.rank, found.node, SAID in found.text) == (int(rank) if rank else None, node, True)
    assert (0 <= stamp.epoch_s - PRINTED_S < 1) if time == "date" and stamp else stamp is None and time != "date"


@pytest.mark.parametrize(
    "line",
    [
        "18:00:19.754 loss 2.1",
        "17:00:19 waiting",
        "[18:00:19] step 4 of rank 3's shard",
        "epoch 2: loss 0.3",
        "mlx5_2: link is up",
        "all 2 ranks | joined",
        "[2/16] Building CXX object",
        "[1] 4242",
        "[1]+  Killed                  python train.py",
        "LoRA rank=8 alpha=16 failed",
        "lora_rank: 8",
        "[12:04] rank 8 of the update | done",
        "10.0.0.7:29500 is refused",
        "train.py:88: failed",
        "2026-02-05T18:00:19 - 88 - failed",
        "(waiting for rank 7) failed",
        "[from rank 7] recv failed",
        "failed to connect to rank 7: refused",
        "RuntimeError: rank 7: gone",
        "local_rank=3 | failed",
        "[tp rank 1] failed",
        "[PG ID 3 PG GUID 9(tp) Rank 1] failed",
    ],
)
def test_a_clock_or_a_count_is_no_rank(line):
    assert place.of_line(line).rank is None


@pytest.mark.parametrize("name", ["gpu007/rank_12.log", "node-3.log", "train_gpu8.log", "qwen72.log", "sft-32.out"])
@pytest.mark.parametrize("known", [False, True])
def test_the_name_of_a_file_names_a_node_only_if_a_line_knows_it(tmp_path, name, known):
    node = place.of_path(name).node
    others = {"other.log": [f"{node}:4242:4243 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>"]} if known else {}
    judge(tmp_path, {name: [f"[rank12]: {SAID}"], **others}, node=node if known else "", rank=12)


@pytest.mark.parametrize("program", ["sft", "supervised_ft", "audit_llm", "tuned-llama", "slurmtrain", "nvidia-train"])
def test_a_job_in_the_journal_is_read_whatever_its_program_is_called(tmp_path, program):
    said = [
        f"Aug 10 18:00:1{second} gpu-c-11 {program}[2210]: [rank2]: {text}" for second, text in ((1, "x"), (2, SAID))
    ]
    found = judge(tmp_path, {"job.log": said})
    assert (found.root.kind.id, found.where.rank) == ("cuda_ecc", 2)


NOW_S = 1_795_252_500.0
KILLED = "Out of memory: Killed process 4711 (python3) total-vm:77kB, anon-rss:50kB"


@pytest.mark.parametrize(("line", "notes"), [("acme: bad thing failed: -5", 1), ("acme: a thing works", 0)])
def test_an_error_of_a_kernel_that_no_row_knows_is_a_note(tmp_path, line, notes):
    log = tmp_path / "dmesg-gpu07.txt"
    log.write_text(f"[91001.100000] {line}\n[   12.100000] acme: failed while it boots\n", encoding="utf-8")
    found = triage([], kernel=[str(log)], now_s=NOW_S)
    assert not found.failed
    assert [line in note.text.en for note in found.notes] == [True] * notes


@pytest.mark.parametrize(
    ("prefix", "node"),
    [
        ("[  +0.000844] ", ""),
        ("[Nov21 08:15] ", ""),
        ("[六 11月 21 08:15:00 2026] ", ""),
        ("11月 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("sept. 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("Sat 2026-11-21 08:15:00 CST gpu07 kernel: ", "gpu07"),
        ("Nov 21 08:15:00.123456 gpu07 kernel: ", "gpu07"),
        ("[12345.678901] gpu07 kernel: ", "gpu07"),
        ("1795248900.123456 gpu07 kernel: ", "gpu07"),
        ("kern.log.1:77:Nov 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("gpu07: [12345.678901] ", "gpu07"),
        ("77:[12345.678901] ", ""),
        ("> ", ""),
    ],
)
def test_a_process_killed_for_want_of_memory_is_seen_behind_any_prefix(tmp_path, prefix, node):
    log = tmp_path / "job.log"
    log.write_text(f"{prefix}{KILLED}\n" * 3, encoding="utf-8")
    found = triage([str(log)], now_s=NOW_S)
    assert found.root is not None
    assert found.root.kind.id == "oom_host"
    assert found.where.node == node or not node  # without one the name of a folder may stand for it


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
