"""Job logs and kernel logs of our own writing, in the forms of PyTorch, NCCL, torchrun, Slurm and the kernel."""

from nodegate.triage.triage import triage

NOW_S = 1_786_406_400.0  # 2026-08-11
TIMEOUT_MS = 600_000


def write(folder, name, *lines):
    """A log with these lines."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def answered(folder, *lines, name="job.log"):
    """What triage says of the logs of a folder, with one of these lines where there are any."""
    if lines:
        write(folder, name, *lines)
    return triage([str(folder)], now_s=NOW_S)


def told(answer):
    """What an answer comes to, by the names that tables of tests use."""
    return {
        "failed": answer.failed,
        "root": answer.root.kind.id if answer.root else "",
        "cause": answer.cause,
        "sure": answer.sure,
        "fine": answer.nodes_fine,
        "past": [group.kind.id for group in answer.overcome],
        "rank": answer.where.rank,
        "node": answer.where.node,
        "pod": answer.where.pod,
        "gpu": answer.where.gpu,
        "device": answer.device,
    }


def judge(folder, files, says="", **expected):
    """Asserts what triage comes to on logs of these lines, by the names of `told`, and what its sentence says."""
    for name, lines in files.items():
        write(folder, name, *lines)
    answer = answered(folder)
    found = told(answer)
    assert {name: found[name] for name in expected} == expected
    assert says in answer.sentence.en
    return answer


def remarks(answer):
    """What an answer says of its logs and clocks, in English."""
    return [reason.en for reason in answer.why] + [note.text.en for note in answer.notes]


def joins(node, gpu, rank, world, *, bus="19000", address):
    """What NCCL prints when a rank starts."""
    who = f"{node}:43{rank:02}:43{rank:02} [{gpu}] NCCL INFO"
    return (
        f"{who} Bootstrap : Using eth0:{address}<0>",
        f"{who} ncclCommInitRank comm 0x5 rank {rank} nranks {world} cudaDev {gpu} nvmlDev {gpu} busId {bus} commId 7",
    )


def iteration(clock, number, day="2026-08-10"):
    """A line of Megatron-LM for a completed iteration."""
    return (
        f"[{day} {clock}] iteration {number:8}/    5000 | elapsed time per iteration (ms): 3000.1 | lm loss: 7.1E+00 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def times_out(rank, clock, *, sequence=977, operation="ALLREDUCE", numel=4096, ran_ms=600_072):
    """PyTorch's watchdog gives a collective up."""
    return (
        f"[rank{rank}]:[E810 {clock} ProcessGroupNCCL.cpp:633] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={numel}, "
        f"NumelOut={numel}, Timeout(ms)={TIMEOUT_MS}) ran for {ran_ms} milliseconds before timing out."
    )


def stands_at(rank, clock, enqueued, completed):
    """How far the rank had come when its watchdog spoke."""
    return (
        f"[rank{rank}]:[E810 {clock} ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure "
        f"detected by watchdog at work sequence id: {completed + 1} PG status: last enqueued work: {enqueued}, "
        f"last completed work: {completed}"
    )


def peer_gone(node, gpu, peer, status=12):
    """An RDMA transfer that the peer did not answer."""
    return (
        f"[2026-08-10 15:36:07] {node}:4301:4688 [{gpu}] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion"
        f" from peer {peer}<33092> with error {status}, opcode 0, len 0, vendor err 129 (Recv)"
    )


def kernel(clock, message, zone="+00:00"):
    """A line of `dmesg --time-format iso`."""
    return f"2026-08-10T{clock.replace('.', ',')}{zone} {message}"


def xid(address, code, text):
    """An Xid as the driver prints it."""
    return f"NVRM: Xid (PCI:{address}): {code}, {text}"


def torchrun_report(host, rank, local_rank, exit_code, clock):
    """What torchrun prints of the first worker that failed on its node."""
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : 2026-08-10_{clock}",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {local_rank})",
        f"  exitcode  : {exit_code} (pid: 208585)",
        "  error_file: <N/A>",
        "============================================================",
    )


def ecc_case(folder, *, kernel_zone="+00:00"):
    """Two ranks of two nodes; the GPU of rank 1 meets a memory error, rank 0 learns of it ten minutes later."""
    write(
        folder,
        "rank0.log",
        *joins("gpu07", 0, 0, 2, address="10.9.0.7"),
        iteration("15:35:58.100000", 120),
        iteration("15:36:01.100000", 121),
        times_out(0, "15:46:05.701112233"),
        stands_at(0, "15:46:05.702112233", 979, 976),
        "[rank0]:[E810 15:46:06.100000000 ProcessGroupNCCL.cpp:684] [Rank 0] Some NCCL operations have failed or timed"
        " out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted data.",
    )
    write(
        folder,
        "rank1.log",
        *joins("gpu08", 3, 1, 2, bus="9b000", address="10.9.0.8"),
        "[rank1]:[E810 15:36:05.945860779 ProcessGroupNCCL.cpp:1899] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process"
        " group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "W0810 15:46:36.000000 188 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 188 closing"
        " signal SIGTERM",
    )
    write(
        folder,
        "dmesg-gpu08.txt",
        kernel("15:20:00.000001", "systemd[1]: Started Session 12 of User root.", kernel_zone),
        kernel("15:36:05.512034", xid("0000:9b:00", 48, "An uncorrectable double bit error (DBE)"), kernel_zone),
        kernel("15:36:05.530034", xid("0000:9b:00", 171, "Uncorrectable DRAM error"), kernel_zone),
        kernel("15:36:05.561034", xid("0000:9b:00", 48, "pid=9911, name=python3, DBE"), kernel_zone),
        kernel("15:36:05.570034", xid("0000:9b:00", 63, "Row Remapper: New row marked for remapping"), kernel_zone),
        kernel(
            "15:36:05.590034",
            xid("0000:9b:00", 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
            kernel_zone,
        ),
    )
    return folder
