"""Which error is the first one, and which GPU is suspected by the Xids of applications: one rule a case."""

import pytest
from support.job_logs import iteration, joins, judge, kernel, peer_gone, stands_at, times_out, torchrun_report, xid

from nodegate.knowledge.words import Cause

HARDWARE, HOST, PROGRAM = Cause.HARDWARE, Cause.HOST, Cause.PROGRAM
FABRIC, UNKNOWN, STORAGE = Cause.FABRIC, Cause.UNKNOWN, Cause.STORAGE
NOBODY = "nothing here speaks against a node: look at the code"
KEY_ERROR = "[2026-08-10 15:36:20.0] KeyError: 'attention_mask'"
STEP = iteration("15:36:00.0", 5)
PROGRAM_FAILS = [STEP, "[rank0]: KeyError: 'attention_mask'", times_out(0, "15:46:05.7")]
CLEAN = [kernel("15:36:15.0", "systemd[1]: Started Session 3 of User root.")]
LOST = "GPU has fallen off the bus."
WITHOUT_ONE = "pid='<unknown>', name=<unknown>, 2027b8d4 00006bb8 00000000"
STARTS, ENDS = "2026-08-10 15:30:00 starts", "[after training is done] datetime: 2026-08-10 15:41:00"
OFI = "gpu-a41:30:80 [0] NCCL WARN NET/OFI Failed to initialize rdma protocol"
UNLOADS = "[rank0]:[W810 15:40:59.000 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed"
ATTEMPT = "WARNING checkpoint: OSError: [Errno 116] Stale file handle: '/data/a' (attempt {} of 3), retrying"
PLUGIN = (
    "gpu-a41:30:80 [0] NCCL INFO NET/Plugin: dlerror=libnccl-tuner.so: cannot open shared object file: No such file or"
    " directory No plugin found (libnccl-tuner.so)"
)
WATCHDOG = (
    "[rank5]:[E810 15:36:04.100000000 ProcessGroupNCCL.cpp:1899] [Rank 5] Process group watchdog thread terminated"
    " with exception: CUDA error: unspecified launch failure"
)
OUT_OF_MEMORY = (
    "2026-08-10 15:36:09,120 - train - ERROR - torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.5 GiB."
    " GPU 2 has a total capacity of 79.11 GiB of which 1.19 GiB is free."
)


def start(rank, world):
    return joins(f"gpu{rank:02}", 0, rank, world, bus="19000", address=f"10.9.0.{rank}")


CASES = {
    "errors before the last progress are not it": (
        {
            "rank0.log": [
                iteration("15:30:00.0", 10),
                "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
                iteration("15:40:00.0", 11),
                iteration("15:41:00.0", 12),
                "[rank0]: ValueError: Token IDs outside valid range",
            ]
        },
        {"root": "python_error", "cause": PROGRAM, "past": ["cuda_ecc"]},
    ),
    "the same iteration again (another rank's line, a replayed buffer) is no progress": (
        {"rank0.log": [iteration("15:30:00.0", 10), "[rank0]: ValueError: bad shape", iteration("15:30:00.0", 10)]},
        {"root": "python_error"},
    ),
    "progress in another log counts by its time": (
        {"0.log": ["[2026-08-10 15:30:00] CUDA error: unknown error"], "7.log": [iteration("15:50:00.0", 99)]},
        {"failed": False, "past": ["cuda_unknown"]},
    ),
    "a time-out is none when any other rank failed before": (
        {"rank0.log": [times_out(0, "15:46:05.7")], "gpu02_rank2.log": [*start(2, 3)[:1], OUT_OF_MEMORY]},
        {"root": "cuda_oom", "rank": 2, "gpu": 2, "node": "gpu02", "says": NOBODY},
    ),
    "the rank that reports no time-out is the laggard": (
        {f"rank{rank}.log": [*start(rank, 4), *[times_out(rank, "15:46:05.7")][: rank != 2]] for rank in range(4)},
        {"rank": 2, "node": "gpu02", "cause": UNKNOWN},
    ),
    "a hang to which every rank came is perhaps the fabric": (
        {
            f"rank{rank}.log": [*start(rank, 4), stands_at(rank, "15:46:05.7", 979, 976), times_out(rank, "15:46:05.7")]
            for rank in range(4)
        },
        {"cause": FABRIC, "sure": False, "says": "perhaps fabric"},
    ),
    "that every rank came is not said where their number is unknown": (
        {f"rank{rank}.log": [times_out(rank, "15:46:05.7")] for rank in range(4)},
        {"failed": True, "cause": UNKNOWN, "sure": False, "says": "rank 0-3 timed out, and whether the other"},
    ),
    "of two nodes' reports of torchrun, each the first of its own node, the earlier one": (
        {
            "a.log": torchrun_report("gpu1", 3, 3, -11, "15:46:20"),
            "b.log": torchrun_report("gpu2", 9, 1, -7, "15:46:11"),
        },
        {"root": "exit_bus_error", "rank": 9, "node": "gpu2"},
    ),
    "an abort by the watchdog is none": (
        {"gpu01.log": [times_out(0, "15:46:05.7"), *torchrun_report("gpu01", 0, 0, -6, "15:46:11")]},
        {"root": "watchdog_timeout"},
    ),
    "killed is explained by the kernel's message": (
        {
            "gpu01.log": [STEP, *torchrun_report("gpu01", 3, 3, -9, "15:36:20")],
            "dmesg-gpu01.txt": [kernel("15:36:15.0", "Out of memory: Killed process 208585 (python3)")],
        },
        {"root": "oom_host", "cause": HOST, "node": "gpu01"},
    ),
    "Slurm names the failed node in another line than the one that cancels": (
        {
            "slurm.out": [
                times_out(0, "15:46:05.7"),
                "srun: error: Node failure on gpu-137",
                "slurmstepd: error: *** STEP 1943824.0 ON gpu-017 CANCELLED AT 2026-08-10T15:50:51 DUE TO NODE FAILURE",
            ]
        },
        {"node": "gpu-137", "cause": HOST},
    ),
    "an error that CUDA cannot name is explained by the kernel of its node": (
        {
            "rank5.log": [*joins("gpu09", 5, 5, 8, bus="c3000", address="10.9.0.9"), WATCHDOG],
            "dmesg-gpu09.txt": [kernel("15:36:09.0", xid("0000:c3:00", 79, LOST))],
        },
        {"cause": HARDWARE, "node": "gpu09", "gpu": 5, "device": "0000:c3:00.0"},
    ),
    "beside the clean kernel log of its node a program error means that the nodes are fine": (
        {"gpu01/rank0.log": PROGRAM_FAILS, "dmesg-gpu01.txt": CLEAN},
        {"fine": True, "says": "the nodes are fine: look at the code"},
    ),
    "that of another says nothing": ({"gpu02/rank0.log": PROGRAM_FAILS, "dmesg-gpu01.txt": CLEAN}, {"says": NOBODY}),
    "kernel messages of another day are not of this job": (
        {
            "rank0.log": [STEP, KEY_ERROR],
            "dmesg-gpu9.txt": ["2026-08-07T01:00:00+00:00 " + xid("0000:c3:00", 79, LOST)],
        },
        {"root": "python_error", "fine": True},
    ),
    "a corrected PCIe error does not beat the exception that ended the job": (
        {
            "rank0.log": [STEP, KEY_ERROR],
            "dmesg-gpu09.txt": [
                kernel("15:36:05.0", "nvidia 0000:65:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer")
            ],
        },
        {"root": "python_error"},
    ),
    "only consequences mean that the cause is elsewhere": (
        {"job.out": [f"Killing subprocess {pid}" for pid in range(22920, 22950)]},
        {"failed": True, "says": "the cause is not in these logs: they show only what follows an error"},
    ),
    "kernel logs alone give the first error of the last incident": (
        {
            "dmesg-gpu09.txt": [
                kernel("09:00:00.0", xid("0000:18:00", 79, LOST)),
                kernel("15:36:05.0", xid("0000:c3:00", 48, "DBE")),
                kernel("15:36:06.0", xid("0000:c3:00", 45, "pid=77, name=python3, Ch 00000008")),
            ]
        },
        {"root": "xid_48", "node": "gpu09", "device": "0000:c3:00.0"},
    ),
    **{  # the others waited in the collective for nine seconds before the GPU broke
        f"an Xid seconds after an error without a time is its reason: {words[:20]}": (
            {
                "gpu-a41.log": [*joins("gpu-a41", 0, 0, 2, address="10.0.0.1"), times_out(0, "15:46:20.0")],
                "gpu-a42.log": [
                    *joins("gpu-a42", 0, 1, 2, address="10.0.0.2"),
                    iteration("15:36:00.0", 480),
                    f"[rank1]: RuntimeError: CUDA error: {words}",
                ],
                "dmesg-gpu-a42.txt": [f"[Mon Aug 10 15:36:29 2026] {xid('0000:19:00', 62, WITHOUT_ONE)}"],
            },
            {"cause": HARDWARE, "node": "gpu-a42", "device": "0000:19:00.0"},
        )
        for words in ("unspecified launch failure", "CUBLAS_STATUS_EXECUTION_FAILED when calling `x`")
    },
    "a fault of another node is none": (
        {
            "gpu-a42.log": [
                *joins("gpu-a42", 0, 0, 1, address="10.0.0.2"),
                iteration("15:36:00.0", 480),
                "[2026-08-10 15:36:20.0] [rank0]: RuntimeError: CUDA error: unspecified launch failure",
            ],
            "dmesg-gpu-a77.txt": [f"[Mon Aug 10 15:36:29 2026] {xid('0000:19:00', 62, WITHOUT_ONE)}"],
        },
        {"root": "cuda_launch_failure"},
    ),
    "a vague warning of another rank does not fail a job that ended": (
        {"gpu-a41.log": [STARTS, OFI], "gpu-a42.log": [iteration("15:40:00.0", 100), ENDS]},
        {"failed": False, "past": ["nccl_ofi_start"]},
    ),
    "nor does it where its log goes on to the end without times": (
        {"gpu-a41.log": [STARTS, OFI, UNLOADS], "gpu-a42.log": [iteration("15:40:00.0", 100), ENDS]},
        {"failed": False},
    ),
    "the same warning counts where no log says that the job ended": (
        {"gpu-a41.log": [STARTS, OFI], "gpu-a42.log": [iteration("15:40:00.0", 100)]},
        {"root": "nccl_ofi_start"},
    ),
    "a plugin of NCCL that is not there is no missing library": ({"rank0.log": [PLUGIN, STEP]}, {"failed": False}),
    "a GPU that asks for a reset is named": (
        {"x.log": ["Unable to determine the device handle for GPU0000:9D:00.0: GPU requires reset"]},
        {"cause": HARDWARE, "device": "0000:9d:00.0"},
    ),
    **{  # ranks on gpu-a41 and gpu-a42 met an error of their own; gpu-b77 broke a minute before
        f"a machine that is not seen in a job of {world} ranks": (
            {
                "gpu-a41.log": [*joins("gpu-a41", 0, 0, world, address="10.0.0.1"), KEY_ERROR],
                "gpu-a42.log": [*joins("gpu-a42", 0, 1, world, address="10.0.0.2"), KEY_ERROR],
                "dmesg-gpu-b77.txt": [f"[Mon Aug 10 15:35:20 2026] {xid('0000:19:00', 79, LOST)}"],
            },
            {"root": root},
        )
        for world, root in ((2, "python_error"), (4, "xid_79"))
    },
    "a single attempt that was tried again is not the reason of a later error": (
        {"rank0.log": [ATTEMPT.format(1), "[rank0]: KeyError: 'labels'"]},
        {"root": "python_error", "cause": PROGRAM},
    ),
    "attempts that fail again stay the reason": (
        {"rank0.log": [*map(ATTEMPT.format, (1, 2, 3)), "[rank0]: RuntimeError: not written"]},
        {"cause": STORAGE},
    ),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_the_root_is(tmp_path, files, expected):
    judge(tmp_path, files, **expected)


def test_an_exception_after_the_time_outs_is_a_consequence(tmp_path):
    files = {f"rank{rank}.log": [times_out(rank, "15:46:05.7")] for rank in range(3)}
    files["rank0.log"].append("[2026-08-10 15:46:09.0] RuntimeError: cleaning up failed")
    files["rank1.log"].insert(0, stands_at(1, "15:46:05.9", 970, 970))
    files["rank2.log"].insert(0, stands_at(2, "15:46:05.9", 979, 976))
    found = judge(tmp_path, files, root="watchdog_timeout", rank=1)
    assert "rank 1 had enqueued the least work" in [reason.en for reason in found.why]


@pytest.mark.parametrize(
    "odd", [{"operation": "BROADCAST"}, {"numel": 8192}], ids=["another operation", "another size"]
)
def test_mismatched_collectives_are_named_with_their_ranks(tmp_path, odd):
    files = {f"rank{r}.log": [times_out(r, "15:46:05.7", **(odd if r == 3 else {}))] for r in range(4)}
    found = judge(tmp_path, files, cause=PROGRAM, rank=3)
    assert found.meaning.en == "the ranks called different collectives at SeqNum 977"
    assert found.why[0].en.startswith(f"rank 3: {odd.get('operation', 'ALLREDUCE')}")
    assert found.why[1].en == "rank 0-2: ALLREDUCE NumelIn=4096 NumelOut=4096"


def test_uneven_all_to_all_is_no_mismatch(tmp_path):
    uneven = [times_out(rank, "15:46:05.7", operation="ALLTOALL_BASE", numel=1000 + rank) for rank in range(4)]
    files = {f"rank{rank}.log": [line] for rank, line in enumerate(uneven)}
    assert judge(tmp_path, files).cause is not PROGRAM


def test_the_peer_that_most_ranks_name_is_blamed(tmp_path):
    blames = {rank: "10.9.0.1" if rank == 4 else "10.9.0.4" for rank in range(6)}
    files = {
        f"rank{rank}.log": [*start(rank, 6), *(peer_gone(f"gpu{rank:02}", 0, peer, status=each) for each in (12, 5))]
        for rank, peer in blames.items()
    }
    found = judge(tmp_path, files, cause=FABRIC, node="gpu04")
    assert found.meaning.en.startswith("5 of 6 ranks that report it name gpu04")


GPU, OTHER = "0000:3e:00", "0000:1a:00"
KERNEL, JOB = "dmesg-gpu01.txt", "gpu01.log"
SUSPECT = {"cause": Cause.HARDWARE, "sure": False, "fine": False, "node": "gpu01", "device": f"{GPU}.0"}
OF_THE_CODE = {"cause": Cause.PROGRAM}
RANK_FAILS = "2026-08-10 15:36:20 [rank3]: RuntimeError: CUDA error: an illegal memory access was encountered"


def fault(clock, pid, name, gpu=GPU):
    return kernel(
        clock, xid(gpu, 31, f"pid={pid}, name={name}, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS")
    )


def warp(clock, pid, name, tpc):
    where = f"Graphics SM Warp Exception on (GPC 2, TPC {tpc}, SM 0): Out Of Range Address"
    return kernel(clock, xid(GPU, 13, f"pid={pid}, name={name}, {where}"))


def everywhere(clock, pid, name):
    return [warp(clock, pid, name, tpc) for tpc in range(9)]


TWO = [fault("14:36:20.0", 11, "solver"), fault("15:36:19.5", 22, "python3")]
SUSPECTS = {
    "two programs, the job's among them": ({KERNEL: TWO, JOB: [RANK_FAILS]}, SUSPECT),
    "a sample of CUDA met it before": ({KERNEL: [fault("15:06:19.0", 11, "matrixMul")], JOB: [RANK_FAILS]}, SUSPECT),
    "13 on one TPC": ({KERNEL: [warp("14:36:20.0", 11, "solver", 3), warp("15:36:19.0", 22, "python3", 3)]}, SUSPECT),
    "13 on all TPCs": ({KERNEL: everywhere("14:36:20.0", 11, "a") + everywhere("15:36:19.0", 22, "b")}, OF_THE_CODE),
    "one program again and again": (
        {KERNEL: [fault(f"{hour}:36:19.000000", hour, "python3") for hour in (13, 14, 15)]},
        {**OF_THE_CODE, "fine": True},
    ),
    "another GPU is suspected than that of the last error": (
        {KERNEL: [*TWO, fault("15:56:00.0", 33, "render", OTHER)]},
        {**OF_THE_CODE, "fine": False},
    ),
    "45 has the cause that it names": (
        {"dmesg-gpu01.txt": [kernel("15:36:19.0", xid(GPU, 45, "pid=7, name=x, Ch 8 caused by previous Xid 149"))]},
        {"root": "xid_149", "cause": Cause.FABRIC},
    ),
}


@pytest.mark.parametrize(("files", "expected"), SUSPECTS.values(), ids=SUSPECTS)
def test_who_is_suspected(tmp_path, files, expected):
    judge(tmp_path, files, **expected)


def test_an_nvlink_error_is_told_by_its_registers(tmp_path):
    registers = "NVLink: fatal error detected on link 8({}, 0x0, 0x0, 0x0, {}, 0x0, 0x0)"
    marginal = kernel("15:36:19.0", xid(GPU, 74, registers.format("0x200000", "0x0")))
    answer = judge(tmp_path / "marginal", {KERNEL: [marginal]}, cause=Cause.FABRIC)
    assert answer.meaning.en == "the signal on the link is marginal (link 8)"
    assert answer.action.en.startswith("look at the link's connectors")
    corrected = kernel("15:36:19.0", xid(GPU, 74, registers.format("0x0", "0x100000")))
    judge(tmp_path / "corrected", {KERNEL: [corrected], JOB: [iteration("15:36:00.0", 5)]}, failed=False)
