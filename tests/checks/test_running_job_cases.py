"""Nodes on which a job still runs, under troubleshoot: nothing asks to end it, and what is wrong with it is said."""

import pytest
from fleet.changes import changes
from support.cases import FAIL, PASS, WARN, asserting, of
from support.judging import Case, judged

from nodegate.probe.jobs import DeviceUser
from nodegate.profile import Profile

STEP = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"
POD = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3f2a7c10_11aa_22bb_33cc_0123456789ab.slice/x"


OF_POD = "3f2a7c10-11aa-22bb-33cc-0123456789ab"


@changes
def works(machine, slurm=("4711",), cgroup=STEP, pid=70000):
    machine.set("jobs", "slurm", list(slurm))
    machine.set("jobs", "gpu_users", [{"pid": 70000, "comm": "python3", "uid": 1004, "cgroup": cgroup}])
    for gpu in machine.sections["nvml"]["gpus"]:
        gpu["processes"].append({"pid": pid, "kind": "compute", "memory_bytes": 60 << 30, "name": "python3"})
        gpu["memory_used_bytes"] = 60 << 30
        gpu["utilization_percent"], gpu["sm_clock_mhz"], gpu["power_mw"] = 100, 1980, 640_000


@changes
def waits(machine, *idle):
    """All GPUs wait in a collective, but those that do nothing."""
    works()(machine)
    for index, gpu in enumerate(machine.sections["nvml"]["gpus"]):
        gpu["utilization_percent"], gpu["power_mw"] = (0, 95_000) if index in idle else (100, 120_000)


@changes
def held(machine, clock_mhz, utilization=100):
    works()(machine)
    machine.set_gpu(2, "sm_clock_mhz", clock_mhz)
    machine.set_gpu(2, "utilization_percent", utilization)


def login(uid):
    return f"0::/user.slice/user-{uid}.slice/session-9.scope"


@changes
def beside(machine, uid, cgroup, *, slurm=("4711",), own=STEP, gpu=0):
    works(slurm, own)(machine)
    machine.sections["jobs"]["gpu_users"].append({"pid": 81455, "comm": "python", "uid": uid, "cgroup": cgroup})
    process = {"pid": 81455, "kind": "compute", "memory_bytes": 8 << 30, "name": "python"}
    machine.sections["nvml"]["gpus"][gpu]["processes"].append(process)


@changes
def two_pods(machine, sharing):
    beside(0, POD.replace("3f2a7c10", "99999999"), slurm=(), own=POD)(machine)
    gpu = machine.sections["nvml"]["gpus"][0]
    if sharing == "MIG":
        machine.set_gpu(0, "mig_mode", [1, 1])
    elif sharing == "MPS":
        gpu["processes"].append(
            {"pid": 7, "kind": "compute", "memory_bytes": 1 << 20, "name": "nvidia-cuda-mps-server"}
        )
    elif sharing:
        machine.sections["jobs"]["shared_gpus"] = [gpu["uuid"]]  # where the kubelet has replicas


@changes
def moved_in(machine):
    beside(1002, login(1002))(machine)
    del machine.sections["nvml"]["gpus"][0]["processes"][0]


@changes
def another_users_login(machine):
    beside(1002, login(1002), slurm=("4711", "4712"))(machine)
    other = {"pid": 90000, "comm": "python", "uid": 1002, "cgroup": STEP.replace("4711", "4712")}
    machine.sections["jobs"]["gpu_users"].append(other)
    machine.sections["nvml"]["gpus"][5]["processes"][0]["pid"] = 90000


CASES = of("idle.processes", profile=Profile.TROUBLESHOOT)(
    Case("another login on the job's GPU", WARN, beside(1002, login(1002))),
    Case("another login on a GPU of a node of Slurm", WARN, moved_in()),
    Case("the job's user in a login", PASS, beside(1004, login(1004))),
    Case("another job of Slurm", WARN, beside(1002, STEP.replace("4711", "4712"), slurm=("4711", "4712"))),
    Case("another job's user in a login", WARN, another_users_login()),
    Case("left over of another job of Slurm", WARN, beside(1002, STEP.replace("4711", "4690"))),
    Case("a service of root", PASS, beside(0, "0::/system.slice/monitor.service")),
    Case("two pods on one GPU", WARN, two_pods("")),
    Case("two pods by MIG", PASS, two_pods("MIG")),
    Case("two pods by MPS", PASS, two_pods("MPS")),
    Case("two pods by time-slicing", PASS, two_pods("slices")),
    Case("a login beside a pod", WARN, beside(1002, login(1002), slurm=(), own=POD)),
    Case("two containers of one pod", PASS, beside(0, POD.replace("/x", "/y"), slurm=(), own=POD)),
    Case("the job of Slurm that runs", PASS, works()),
    Case("a pod that runs", PASS, works((), POD)),
    Case("without root it is not known whose", PASS, works(pid=71111)),
    Case("of a Slurm job that is over", WARN, works(())),
    Case("of nobody known", WARN, works((), "0::/user.slice/user-1004.slice/session-3.scope")),
)
CASES += of("idle.memory", profile=Profile.TROUBLESHOOT)(Case("its memory", PASS, works()))
CASES += of("clocks.event_reasons", profile=Profile.TROUBLESHOOT)(
    Case("all at the same clock", PASS, works()),
    Case("one held down among eight at work", FAIL, held(500)),
    Case("healthy: a GPU that does nothing may be slow", PASS, held(345, 0)),
    Case("healthy: clocks under a power limit differ", PASS, held(1395)),
)
CASES += of("power.draw", profile=Profile.TROUBLESHOOT)(
    Case("at work", PASS, works()),
    Case("all wait for a rank elsewhere", WARN, waits()),
    Case("seven wait for the eighth", WARN, waits(3)),
)


test_a_running_job = asserting(CASES)


@pytest.mark.parametrize("profile", [Profile.BOOTCHECK, Profile.DELIVERY])
def test_before_a_job_a_process_still_fails(profile):
    end = "find its job (ps -fp PID) and end it before the node takes work"
    record = judged(Case("a job", FAIL, works(), profile=profile, check="idle.processes"))
    said = f"compute process 70000 (python3) is running, 61440 MiB - {end} (and 7 more)"
    assert (record.verdict, record.message) == (FAIL, f"GPU 0 (0000:19:00.0, S/N 1650001000000): {said}")


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        (STEP, "Slurm job 4711"),
        ("4:memory:/slurm/uid_1004/job_4711/step_batch\n1:name=systemd:/system.slice", "Slurm job 4711"),
        (f"12:cpu:/kubepods/besteffort/pod{OF_POD}/1a2b", f"pod {OF_POD}"),
        ("0::/system.slice/docker-1a2b3c4d5e6f7788990011223344.scope", "container 1a2b3c4d5e6f"),
        ("0::/user.slice/user-1004.slice/session-3.scope", ""),
        ("", ""),
    ],
)
def test_who_started_a_process_is_read_from_its_cgroup(cgroup, job):
    assert DeviceUser(1, "python3", 1004, cgroup).job == job
