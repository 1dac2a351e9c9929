"""Application Xids counted by unit and program, and what lines of Xid 45 and 74 say of the part: one rule a case.

The forms are those of NVRM (open-gpu-kernel-modules, nverror.c and kernel_rc.c).
"""

import pytest
from fleet.changes import changes
from fleet.machine import Machine
from support.cases import FAIL, PASS, WARN, asserting, of
from support.judging import Case, judge_one

from nodegate.profile import Profile

H = 3600.0
LOOK_AT_THE_JOB = "look at the job"
NOBODY = ("'<unknown>'", "<unknown>")
BUSES = ("1a", "22", "2a", "3a")


def fault(pid, name, bus="3e", mig=""):
    return (
        f"NVRM: Xid (PCI:0000:{bus}:00{mig}): 31, pid={pid}, name={name}, Ch 00000008, intr 00000000. MMU Fault: ENGINE"
        " GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f42_a0000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )


def on_all(hours, name):
    return [(hours * H, fault(number, name, bus)) for number, bus in enumerate(BUSES)]


def warp(pid, name, gpc, tpc):
    where = f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Out Of Range Address"
    return f"NVRM: Xid (PCI:0000:3e:00): 13, pid={pid}, name={name}, {where}"


def everywhere(pid, name):
    return [warp(pid, name, number % 7, number % 8) for number in range(40)]


def nvlink(link, *registers):
    words = ", ".join([*registers, *["0x0"] * 7][:7])
    return f"74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {link}({words})"


@changes
def said(machine, *lines):
    for ago_s, told in lines:
        for number, line in enumerate([told] if isinstance(told, str) else told):
            full = line if line.startswith("NVRM") else f"NVRM: Xid (PCI:0000:3e:00): {line}"
            machine.kernel(full, ago_s=ago_s - number / 100)


SUSPECT = {
    "two programs": said((2 * H, fault(11, "train_llm")), (H, fault(22, "python3"))),
    "minutes apart": said((H, fault(11, "train_llm")), (H - 600, fault(22, "python3"))),
    "a sample of CUDA": said((H, fault(11, "matrixMul"))),
    "a name that the kernel cut": said((H, fault(11, "reduce_scatter_"))),
    "DCGM": said((H, fault(11, "dcgmproftester1"))),
    "13 on one TPC": said((3 * H, warp(11, "appa", 2, 3)), (H, warp(22, "appb", 2, 3))),
    "13 whose process the next 43 names": said(
        (3 * H, [warp(*NOBODY, 2, 3), "43, pid=3, name=appa, channel 0x00000002"]),
        (H, [warp(*NOBODY, 2, 3), "43, pid=1, name=appb, channel 0x00000002"]),
    ),
    "other programs on another GPU": said(
        (3 * H, fault(1, "appa")), (2 * H, fault(2, "appb")), (H, fault(3, "appc", "1a"))
    ),
    "a good program on all GPUs": said(*on_all(1, "all_reduce_perf")),
}
OF_THE_JOB = {
    "one script three times": said(*((hours * H, fault(hours, "python3")) for hours in (3, 2, 1))),
    "names of one interpreter": said((2 * H, fault(1, "python3.10")), (H, fault(2, "pt_main_thread"))),
    "threads of one process": said((H, fault(11, "trainer")), (H - 400, fault(11, "pt_autograd_0"))),
    "one burst": said((H, fault(11, "appa")), (H - 60, fault(22, "appb"))),
    "days apart": said((60 * H, fault(11, "appa")), (H, fault(22, "appb"))),
    "the ranks of one job": said(*on_all(1, "python3")),
    "two programs on two GPUs each": said(*on_all(3, "appa"), *on_all(1, "appb")),
    "13 on two TPCs": said((3 * H, warp(11, "appa", 2, 3)), (H, warp(22, "appb", 5, 1))),
    "13 on all TPCs": said((3 * H, everywhere(11, "appa")), (H, everywhere(22, "appb"))),
    "13 of a process that is not known": said((3 * H, warp(*NOBODY, 2, 3)), (H, warp(*NOBODY, 2, 3))),
    "two MIG instances": said((3 * H, fault(11, "appa", mig=" GPU-I:05")), (H, fault(22, "appb", mig=" GPU-I:06"))),
    "a process without a name": said((3 * H, fault(11, "appa")), (H, fault(22, "<unknown>"))),
    "a name that only begins like a sample": said((H, fault(11, "matrixMulMine"))),
}


def judged(change, profile=Profile.BOOTCHECK):
    machine = Machine.hgx_h100()
    change(machine)
    found = judge_one("kernel_log.xid", machine, profile=profile).findings
    return [(each.verdict.value, each.message) for each in found]


@pytest.mark.parametrize("change", SUSPECT.values(), ids=SUSPECT)
def test_the_gpu_is_suspected(change):
    suspected = [(verdict, message) for verdict, message in judged(change) if "suspect" in message]
    assert {verdict for verdict, _ in suspected} == {"warn"}
    assert all("run dcgmi diag" in message and LOOK_AT_THE_JOB not in message for _, message in suspected)
    assert next(verdict for verdict, message in judged(change, Profile.DELIVERY) if "suspect" in message) == "fail"


@pytest.mark.parametrize("change", OF_THE_JOB.values(), ids=OF_THE_JOB)
def test_the_job_is_looked_at(change):
    found = judged(change)
    assert all("suspect" not in message for _, message in found)
    assert any(LOOK_AT_THE_JOB in message for _, message in found)


def test_a_burst_of_thousands_of_processes_is_counted_in_bounds():
    many = [fault(number, f"p{number}x", f"{number % 250:02x}") for number in range(20_000)]
    assert judged(said((H, many)))


DECODED = {
    "13 by unit": (warp(11, "python3", 2, 3), "warn", "GPC 2, TPC 3: a program on the GPU stopped"),
    "45 by 149": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 149", "fail", "Xid 149 ("),
    "45 by 145": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 145", "fail", "Xid 145 ("),
    "45 by 13": ("45, pid=4242, name=python3, Ch 00000008 caused by previous Xid 13", "warn", "Xid 13 ("),
    "74: signal": (nvlink(8, "0x200000"), "fail", "link 8: the signal on the link is marginal"),
    "74: ECC": (nvlink(14, "0x0", "0x0", "0x4"), "fail", "link 14: an ECC or parity error in the link's hardware"),
    "74: corrected": (nvlink(2, "0x0", "0x0", "0x0", "0x0", "0x100000"), "warn", "link 2: many corrected ECC errors"),
    "74: the worst bit": (nvlink(2, "0x12", "0x0", "0x0", "0x0", "0x100000"), "fail", "link 2: an ECC or parity"),
    "74: an unknown bit": (nvlink(2, "0x80"), "fail", "link 2: a link between GPUs or to a switch failed"),
    "74: no register": ("74, NVLink: failed to train link 4 to remote PCI:0000:c5:00", "fail", "link 4: a link"),
}


@pytest.mark.parametrize(("line", "verdict", "words"), DECODED.values(), ids=DECODED)
def test_the_line_says_what_failed(line, verdict, words):
    ((found, message),) = [each for each in judged(said((600, line))) if "Xid" in each[1]]
    assert found == verdict
    assert words in message


LONG_AGO = said((90 * H, fault(1, "appa")), (80 * H, fault(2, "appb")))
CASES = of("kernel_log.xid")(
    Case("two programs on one GPU, at delivery", FAIL, SUSPECT["two programs"]),
    Case("two programs on one GPU, before a job", WARN, SUSPECT["two programs"], profile=Profile.BOOTCHECK),
    Case("one program on one GPU", WARN, OF_THE_JOB["one script three times"]),
    Case("two programs long ago", PASS, LONG_AGO, profile=Profile.BOOTCHECK),
)
test_cases = asserting(CASES)
