"""Xids of applications in a job's kernel logs: counted by unit and program as the node check does, one rule a case."""

import pytest
from support.job_logs import iteration, judge, kernel, xid

from nodegate.knowledge.words import Cause

GPU, OTHER = "0000:3e:00", "0000:1a:00"
KERNEL, JOB = "dmesg-gpu01.txt", "gpu01.log"
SUSPECT = {"cause": Cause.HARDWARE, "sure": False, "fine": False, "node": "gpu01", "device": f"{GPU}.0"}
OF_THE_CODE = {"cause": Cause.PROGRAM}
RANK_FAILS = "2026-08-10 15:36:20 [rank3]: RuntimeError: CUDA error: an illegal memory access was encountered"


def fault(clock: str, pid: int, name: str, gpu: str = GPU) -> str:
    return kernel(
        clock, xid(gpu, 31, f"pid={pid}, name={name}, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS")
    )


def warp(clock: str, pid: int, name: str, tpc: int) -> str:
    where = f"Graphics SM Warp Exception on (GPC 2, TPC {tpc}, SM 0): Out Of Range Address"
    return kernel(clock, xid(GPU, 13, f"pid={pid}, name={name}, {where}"))


def everywhere(clock: str, pid: int, name: str) -> list[str]:
    return [warp(clock, pid, name, tpc) for tpc in range(9)]


TWO = [fault("14:36:20.0", 11, "solver"), fault("15:36:19.5", 22, "python3")]
CASES = {
    "two programs, the job's among them": ({KERNEL: TWO, JOB: [RANK_FAILS]}, SUSPECT),
    "a sample of CUDA met it before": ({KERNEL: [fault("15:06:19.0", 11, "matrixMul")], JOB: [RANK_FAILS]}, SUSPECT),
    "13 on one TPC": ({KERNEL: [warp("14:36:20.0", 11, "solver", 3), warp("15:36:19.0", 22, "python3", 3)]}, SUSPECT),
    "13 on all TPCs": (
        {KERNEL: everywhere("14:36:20.0", 11, "a") + everywhere("15:36:19.0", 22, "python3")},
        OF_THE_CODE,
    ),
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


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
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
