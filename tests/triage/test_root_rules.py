"""Which error is the first one: one rule a test."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from support.job_logs import iteration, joins, kernel, peer_gone, stands_at, times_out, torchrun_report, write, xid

from nodegate.knowledge.words import Cause
from nodegate.triage.triage import triage

NOW_S = datetime(2026, 8, 11, tzinfo=timezone.utc).timestamp()


def judged(folder, **options):
    return triage([str(folder)], now_s=NOW_S, **options)


def test_a_healthy_log_has_no_root(tmp_path):
    write(tmp_path, "rank0.log", *(iteration(f"15:36:{second:02}.0", second) for second in range(1, 50)))
    found = judged(tmp_path)
    assert not found.failed
    assert found.sentence.en == "no error in these logs"
    assert found.iteration == 49


def test_errors_before_the_last_progress_are_not_the_root(tmp_path):
    write(
        tmp_path,
        "rank0.log",
        iteration("15:30:00.0", 10),
        "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        iteration("15:40:00.0", 11),
        iteration("15:41:00.0", 12),
        "[rank0]: ValueError: Token IDs outside valid range",
    )
    found = judged(tmp_path)
    assert found.root.kind.id == "python_error"
    assert found.cause is Cause.PROGRAM
    assert [group.kind.id for group in found.overcome] == ["cuda_ecc"]


def test_a_number_that_does_not_grow_is_no_progress(tmp_path):
    """The same iteration printed again (by another rank's line, or a replayed buffer) leaves the error standing."""
    write(
        tmp_path,
        "rank0.log",
        iteration("15:30:00.0", 10),
        "[rank0]: ValueError: bad shape",
        iteration("15:30:00.0", 10),
    )
    assert judged(tmp_path).root.kind.id == "python_error"


def test_progress_in_another_log_counts_by_its_time(tmp_path):
    write(tmp_path, "rank0.log", "[2026-08-10 15:30:00.0] worker: RuntimeError: CUDA error: unknown error")
    write(tmp_path, "rank7.log", iteration("15:50:00.0", 99))
    found = judged(tmp_path)
    assert not found.failed
    assert [group.kind.id for group in found.overcome] == ["cuda_unknown"]


def test_a_time_out_is_no_root_when_any_other_rank_failed_before(tmp_path):
    write(tmp_path, "rank0.log", times_out(0, "15:46:05.7"))
    write(tmp_path, "rank1.log", times_out(1, "15:46:05.6"))
    write(
        tmp_path,
        "gpu03_rank2.log",
        "2026-08-10 15:36:09,120 - train - ERROR - torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.5"
        " GiB. GPU 2 has a total capacity of 79.11 GiB of which 1.19 GiB is free.",
    )
    found = judged(tmp_path)
    assert (found.root.kind.id, found.where.rank, found.where.gpu, found.where.node) == ("cuda_oom", 2, 2, "gpu03")
    assert found.sentence.en.startswith("nothing here speaks against a node: look at the code")


def test_an_exception_after_the_time_outs_is_a_consequence(tmp_path):
    write(tmp_path, "rank0.log", times_out(0, "15:46:05.7"), "[2026-08-10 15:46:09.0] RuntimeError: cleaning up failed")
    write(tmp_path, "rank1.log", stands_at(1, "15:46:05.9", 970, 970), times_out(1, "15:46:05.9"))
    write(tmp_path, "rank2.log", stands_at(2, "15:46:05.9", 979, 976), times_out(2, "15:46:05.9"))
    found = judged(tmp_path)
    assert found.root.kind.id == "watchdog_timeout"
    assert found.where.rank == 1
    assert "rank 1 had enqueued the least work" in [reason.en for reason in found.why]


def test_the_rank_that_reports_no_time_out_is_the_laggard(tmp_path):
    for rank in (0, 1, 3):
        write(
            tmp_path,
            f"rank{rank}.log",
            *joins(f"gpu{rank:02}", 0, rank, 4, bus="19000", address=f"10.9.0.{rank}"),
            times_out(rank, "15:46:05.7"),
        )
    write(tmp_path, "rank2.log", *joins("gpu02", 0, 2, 4, bus="19000", address="10.9.0.2"))
    found = judged(tmp_path)
    assert (found.where.rank, found.where.node) == (2, "gpu02")
    assert found.cause is Cause.UNKNOWN


def test_a_hang_to_which_every_rank_came_is_suspected_to_be_the_fabric(tmp_path):
    for rank in range(4):
        write(
            tmp_path,
            f"rank{rank}.log",
            *joins(f"gpu{rank:02}", 0, rank, 4, bus="19000", address=f"10.9.0.{rank}"),
            stands_at(rank, "15:46:05.7", 979, 976),
            times_out(rank, "15:46:05.7"),
        )
    found = judged(tmp_path)
    assert (found.cause, found.sure) == (Cause.FABRIC, False)
    assert found.sentence.en.startswith("perhaps fabric")


def test_that_every_rank_came_is_not_said_where_the_number_of_ranks_is_unknown(tmp_path):
    for rank in range(4):
        write(tmp_path, f"rank{rank}.log", times_out(rank, "15:46:05.7"))
    found = judged(tmp_path)
    assert (found.failed, found.cause, found.sure) == (True, Cause.UNKNOWN, False)
    assert "rank 0-3 timed out, and whether the other ranks came to it is not known" in found.sentence.en


@pytest.mark.parametrize(
    "odd", [{"operation": "BROADCAST"}, {"numel": 8192}], ids=["another operation", "another size"]
)
def test_mismatched_collectives_are_named_with_their_ranks(tmp_path, odd):
    for rank in range(4):
        write(tmp_path, f"rank{rank}.log", times_out(rank, "15:46:05.7", **(odd if rank == 3 else {})))
    found = judged(tmp_path)
    assert found.cause is Cause.PROGRAM
    assert found.where.rank == 3
    assert found.meaning.en == "the ranks called different collectives at SeqNum 977"
    assert found.why[0].en.startswith(f"rank 3: {odd.get('operation', 'ALLREDUCE')}")
    assert found.why[1].en == "rank 0-2: ALLREDUCE NumelIn=4096 NumelOut=4096"


def test_uneven_all_to_all_is_no_mismatch(tmp_path):
    for rank in range(4):
        write(tmp_path, f"rank{rank}.log", times_out(rank, "15:46:05.7", operation="ALLTOALL_BASE", numel=1000 + rank))
    assert judged(tmp_path).cause is not Cause.PROGRAM


def test_the_peer_that_most_ranks_name_is_blamed(tmp_path):
    for rank in range(6):
        node = f"gpu{rank:02}"
        write(
            tmp_path,
            f"rank{rank}.log",
            *joins(node, 0, rank, 6, bus="19000", address=f"10.9.0.{rank}"),
            *([peer_gone(node, 0, "10.9.0.4"), peer_gone(node, 0, "10.9.0.4", status=5)] if rank != 4 else []),
            *([peer_gone(node, 0, "10.9.0.1")] if rank == 4 else []),
        )
    found = judged(tmp_path)
    assert found.cause is Cause.FABRIC
    assert found.where.node == "gpu04"
    assert found.meaning.en.startswith("5 of 6 ranks that report it name gpu04")


def test_of_two_nodes_reports_of_torchrun_the_earlier_failure_wins(tmp_path):
    """torchrun's root cause is the first on its own node only."""
    write(tmp_path, "gpu01.log", *torchrun_report("gpu01", 3, 3, -11, "15:46:20"))
    write(tmp_path, "gpu02.log", *torchrun_report("gpu02", 9, 1, -7, "15:46:11"))
    found = judged(tmp_path)
    assert (found.root.kind.id, found.where.rank, found.where.node) == ("exit_bus_error", 9, "gpu02")


def test_an_abort_by_the_watchdog_is_no_root(tmp_path):
    write(tmp_path, "gpu01.log", times_out(0, "15:46:05.7"), *torchrun_report("gpu01", 0, 0, -6, "15:46:11"))
    assert judged(tmp_path).root.kind.id == "watchdog_timeout"


def test_killed_is_explained_by_the_kernels_out_of_memory_message(tmp_path):
    write(tmp_path, "gpu01.log", iteration("15:36:00.0", 5), *torchrun_report("gpu01", 3, 3, -9, "15:36:20"))
    message = "Out of memory: Killed process 208585 (python3) total-vm:1500000kB, anon-rss:900000kB, file-rss:0kB"
    write(tmp_path, "dmesg-gpu01.txt", kernel("15:36:15.000000", message))
    found = judged(tmp_path)
    assert found.root.kind.side.value == "kernel"
    assert (found.cause, found.where.node) == (Cause.HOST, "gpu01")


def test_slurm_names_the_failed_node_in_another_line_than_the_one_that_cancels(tmp_path):
    write(
        tmp_path,
        "slurm.out",
        times_out(0, "15:46:05.7"),
        "srun: error: Node failure on gpu-137",
        "slurmstepd: error: *** STEP 1943824.0 ON gpu-017 CANCELLED AT 2026-08-10T15:50:51 DUE TO NODE FAILURE, SEE"
        " SLURMCTLD LOG FOR DETAILS ***",
    )
    found = judged(tmp_path)
    assert (found.where.node, found.cause) == ("gpu-137", Cause.HOST)


def test_an_error_that_cuda_cannot_name_is_explained_by_the_kernel_of_its_node(tmp_path):
    write(
        tmp_path,
        "rank5.log",
        *joins("gpu09", 5, 5, 8, bus="c3000", address="10.9.0.9"),
        "[rank5]:[E810 15:36:04.100000000 ProcessGroupNCCL.cpp:1899] [Rank 5] Process group watchdog thread terminated"
        " with exception: CUDA error: unspecified launch failure",
    )
    write(tmp_path, "dmesg-gpu09.txt", kernel("15:36:09.000000", xid("0000:c3:00", 79, "GPU has fallen off the bus.")))
    found = judged(tmp_path)
    assert (found.cause, found.where.node, found.where.gpu, found.device) == (
        Cause.HARDWARE,
        "gpu09",
        5,
        "0000:c3:00.0",
    )


def test_a_program_error_beside_the_clean_kernel_log_of_its_node_means_that_the_nodes_are_fine(tmp_path):
    _program_fails(tmp_path, "gpu01/rank0.log")
    write(tmp_path, "dmesg-gpu01.txt", kernel("15:36:15.000000", "systemd[1]: Started Session 3 of User root."))
    found = judged(tmp_path)
    assert found.nodes_fine
    assert found.sentence.en.startswith("the nodes are fine: look at the code")


@pytest.mark.parametrize("log", ["rank0.log", "gpu02/rank0.log"])
def test_the_kernel_log_of_one_node_says_nothing_of_another_or_of_one_that_is_not_known(tmp_path, log):
    _program_fails(tmp_path, log)
    write(tmp_path, "dmesg-gpu01.txt", kernel("15:36:15.000000", "systemd[1]: Started Session 3 of User root."))
    assert judged(tmp_path).sentence.en.startswith("nothing here speaks against a node: look at the code")


def _program_fails(folder, log):
    write(
        folder,
        log,
        iteration("15:36:00.0", 5),
        "[rank0]: KeyError: 'attention_mask'",
        times_out(0, "15:46:05.7"),
    )


def test_kernel_messages_of_another_day_are_not_of_this_job(tmp_path):
    write(tmp_path, "rank0.log", iteration("15:36:00.0", 5), "[2026-08-10 15:36:02.0] KeyError: 'attention_mask'")
    line = "2026-08-07T01:00:00,000000+00:00 " + xid("0000:c3:00", 79, "GPU has fallen off the bus.")
    write(tmp_path, "dmesg-gpu09.txt", line)
    found = judged(tmp_path)
    assert found.root.kind.id == "python_error"
    assert found.nodes_fine


def test_a_corrected_pcie_error_does_not_beat_the_exception_that_ended_the_job(tmp_path):
    write(tmp_path, "rank0.log", iteration("15:36:00.0", 5), "[2026-08-10 15:36:20.0] KeyError: 'attention_mask'")
    message = "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    write(tmp_path, "dmesg-gpu09.txt", kernel("15:36:05.000000", message))
    assert judged(tmp_path).root.kind.id == "python_error"


def test_only_consequences_means_that_the_cause_is_elsewhere(tmp_path):
    write(tmp_path, "job.out", *(f"Killing subprocess {pid}" for pid in range(22920, 22950)))
    found = judged(tmp_path)
    assert found.failed
    assert found.sentence.en == "the cause is not in these logs: they show only what follows an error"


def test_kernel_logs_alone_give_the_first_error_of_the_last_incident(tmp_path):
    write(
        tmp_path,
        "dmesg-gpu09.txt",
        kernel("09:00:00.000000", xid("0000:18:00", 79, "GPU has fallen off the bus.")),
        kernel("15:36:05.000000", xid("0000:c3:00", 48, "DBE")),
        kernel("15:36:06.000000", xid("0000:c3:00", 45, "pid=77, name=python3, Ch 00000008")),
    )
    found = judged(tmp_path)
    assert (found.root.kind.id, found.where.node, found.device) == ("xid_48", "gpu09", "0000:c3:00.0")


@pytest.mark.parametrize(
    "words", ["CUDA error: unspecified launch failure", "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `x`"]
)
def test_an_xid_seconds_after_an_error_without_a_time_is_its_reason(tmp_path, words):
    """The others waited in the collective for nine seconds before the GPU broke."""
    write(tmp_path, "gpu-a41.log", *joins("gpu-a41", 0, 0, 2, address="10.0.0.1"), times_out(0, "15:46:20.0"))
    write(
        tmp_path,
        "gpu-a42.log",
        *joins("gpu-a42", 0, 1, 2, address="10.0.0.2"),
        iteration("15:36:00.0", 480),
        f"[rank1]: RuntimeError: {words}",
    )
    kernel_line = xid("0000:19:00", 62, "pid='<unknown>', name=<unknown>, 2027b8d4 00006bb8 00000000")
    write(tmp_path, "dmesg-gpu-a42.txt", f"[Mon Aug 10 15:36:29 2026] {kernel_line}")
    found = judged(tmp_path)
    assert (found.cause, found.where.node, found.device) == (Cause.HARDWARE, "gpu-a42", "0000:19:00.0")


def test_a_fault_of_another_node_is_no_reason_for_an_error_without_one(tmp_path):
    write(
        tmp_path,
        "gpu-a42.log",
        *joins("gpu-a42", 0, 0, 1, address="10.0.0.2"),
        iteration("15:36:00.0", 480),
        "[2026-08-10 15:36:20.0] [rank0]: RuntimeError: CUDA error: unspecified launch failure",
    )
    fell_off = xid("0000:19:00", 62, "pid='<unknown>', name=<unknown>, 2027b8d4")
    write(tmp_path, "dmesg-gpu-a77.txt", f"[Mon Aug 10 15:36:29 2026] {fell_off}")
    assert judged(tmp_path).root.kind.id == "cuda_launch_failure"


OFI = "gpu-a41:30:80 [0] NCCL WARN NET/OFI Failed to initialize rdma protocol"


def test_a_vague_warning_of_another_rank_does_not_fail_a_job_that_ended(tmp_path):
    write(tmp_path, "gpu-a41.log", "2026-08-10 15:30:00 starts", OFI)
    write(
        tmp_path, "gpu-a42.log", iteration("15:40:00.0", 100), "[after training is done] datetime: 2026-08-10 15:41:00"
    )
    found = judged(tmp_path)
    assert not found.failed
    assert [group.kind.id for group in found.overcome] == ["nccl_warning"]


def test_nor_does_it_where_its_log_goes_on_to_the_end_without_times(tmp_path):
    unloads = "[rank0]:[W810 15:40:59.000 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed"
    write(tmp_path, "gpu-a41.log", "2026-08-10 15:30:00 starts", OFI, unloads)
    write(
        tmp_path, "gpu-a42.log", iteration("15:40:00.0", 100), "[after training is done] datetime: 2026-08-10 15:41:00"
    )
    assert not judged(tmp_path).failed


def test_the_same_warning_counts_where_no_log_says_that_the_job_ended(tmp_path):
    write(tmp_path, "gpu-a41.log", "2026-08-10 15:30:00 starts", OFI)
    write(tmp_path, "gpu-a42.log", iteration("15:40:00.0", 100))
    assert judged(tmp_path).root.kind.id == "nccl_warning"


def test_a_plugin_of_nccl_that_is_not_installed_is_no_missing_library(tmp_path):
    text = "libnccl-tuner.so: cannot open shared object file: No such file or directory No plugin found"
    write(tmp_path, "rank0.log", f"gpu-a41:30:80 [0] NCCL INFO NET/Plugin: dlerror={text} (libnccl-tuner.so)")
    assert not judged(tmp_path).failed


def test_a_gpu_that_asks_for_a_reset_is_named(tmp_path):
    write(tmp_path, "x.log", "Unable to determine the device handle for GPU0000:9D:00.0: GPU requires reset")
    found = judged(tmp_path)
    assert (found.cause, found.device) == (Cause.HARDWARE, "0000:9d:00.0")


def other_machines(folder, *, world):
    """A job of two ranks on gpu-a41 and gpu-a42 that met an error of its own; gpu-b77 broke a minute before."""
    for rank, node in enumerate(("gpu-a41", "gpu-a42")):
        own = joins(node, 0, rank, world, address=f"10.0.0.{rank + 1}")
        write(folder, f"{node}.log", *own, "[2026-08-10 15:36:20.0] KeyError: 'labels'")
    broken = xid("0000:19:00", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    write(folder, "dmesg-gpu-b77.txt", f"[Mon Aug 10 15:35:20 2026] {broken}")
    return judged(folder)


def test_machines_of_others_are_not_blamed(tmp_path):
    assert other_machines(tmp_path, world=2).root.kind.id == "python_error"


def test_machines_of_ranks_not_seen_count(tmp_path):
    assert other_machines(tmp_path, world=4).root.kind.id == "xid_79"


_FAILED_ATTEMPT = "WARNING checkpoint: OSError: [Errno 116] Stale file handle: '/data/a' (attempt {} of 3), retrying"


def test_a_single_attempt_that_was_tried_again_is_not_the_reason_of_a_later_error(tmp_path):
    write(tmp_path, "rank0.log", _FAILED_ATTEMPT.format(1), "[rank0]: KeyError: 'labels'")
    found = judged(tmp_path)
    assert (found.root.kind.id, found.cause) == ("python_error", Cause.PROGRAM)


def test_attempts_that_fail_again_stay_the_reason_of_a_later_error(tmp_path):
    write(
        tmp_path,
        "rank0.log",
        *(_FAILED_ATTEMPT.format(attempt) for attempt in (1, 2, 3)),
        "[rank0]: RuntimeError: the checkpoint was not written",
    )
    assert judged(tmp_path).cause is Cause.STORAGE
