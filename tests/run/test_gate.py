"""Who may be put under load: what the checks say of a node decides, and who answers for a failure."""

import datetime as dt

import pytest
from fleet.machine import Machine

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.engines.engine import BUSY
from nodegate.errors import Busy
from nodegate.judge.waivers import Waiver, Waivers
from nodegate.measure.registry import MEASURED, wanted
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.run_folder import RunFolder
from nodegate.run.gate import HARMED, Gate
from nodegate.run.judging import Judging
from nodegate.run.run_evidence import RunEvidence

TODAY = dt.date(2026, 11, 21)
BY_NAME = {each.name: each for each in wanted(MEASURED)}


def gpu_3_is_lost(machine):
    machine.lose_gpu(3)


def a_call_into_the_driver_hangs(machine):
    stuck = {"pid": 4711, "comm": "python", "wchan": "os_acquire_rwlock_write"}
    machine.set("system", "dstate", [stuck])


def nobody_can_list_the_processes_on_gpu_2(machine):
    machine.set_gpu(2, "processes", {"why": "denied", "detail": "NVML 4: Insufficient Permissions"})
    machine.set("jobs", "gpu_users", {"why": "denied", "detail": "the open files of 31 processes need root"})


def no_root_and_no_slurm(machine):
    machine.set("jobs", "gpu_users", {"why": "denied", "detail": "the open files of 31 processes need root"})


def waived(check, expires=TODAY):
    return Waivers((Waiver("gpu01", check, "the board is on order", "lee", expires),), TODAY)


def gate(tmp_path, fault, measurement, waivers, groups=()):
    machine = Machine.hgx_h100("gpu01")
    fault(machine)
    folder = RunFolder.create(tmp_path / "run", profile="delivery", started_epoch_s=0.0)
    folder.write_evidence(Evidence("gpu01", FACTS, 0.0, 0.0, document=machine.document()))
    judging = Judging(
        {"gpu01": Node("gpu01", groups=groups)}, Profile.DELIVERY, Baselines.read(), waivers, RunEvidence(folder)
    )
    for check in BY_NAME[measurement].rests_on:
        judging.register.ask(suite.check(check), "gpu01")
    return Gate(judging).refusal("gpu01", BY_NAME[measurement])


@pytest.mark.parametrize("waivers", [Waivers(), waived("gpu.lost", TODAY - dt.timedelta(1)), waived("gpu.count")])
def test_a_failure_that_nobody_answers_for_keeps_the_node_out(tmp_path, waivers):
    blocked = gate(tmp_path, gpu_3_is_lost, "burn", waivers)
    assert blocked is not None
    assert blocked.reason.startswith("blocked by gpu.lost: GPU 3")


def test_a_node_whose_gpus_are_given_to_a_job_gets_no_load(tmp_path):
    """Also where no process of the job is on a GPU yet."""
    blocked = gate(tmp_path, lambda _: None, "burn", Waivers(), groups=(BUSY,))
    assert isinstance(blocked, Busy)
    assert blocked.reason == "the node is busy: its GPUs were given to a job (group has_gpu_jobs)"


def test_a_waived_failure_does_not_keep_the_node_out(tmp_path):
    assert gate(tmp_path, gpu_3_is_lost, "burn", waived("gpu.lost")) is None


def test_a_waiver_makes_no_load_where_it_would_do_harm(tmp_path):
    blocked = gate(tmp_path, a_call_into_the_driver_hangs, "nccl", waived("host.blocked_processes"))
    assert blocked is not None
    assert blocked.reason.startswith("blocked by host.blocked_processes: process 4711 (python)")
    assert blocked.reason.endswith("(waived, but load would do harm)")


@pytest.mark.parametrize("measurement", BY_NAME)
def test_a_node_that_may_be_in_use_gets_no_load(tmp_path, measurement):
    blocked = gate(tmp_path, nobody_can_list_the_processes_on_gpu_2, measurement, Waivers())
    assert blocked is not None
    assert blocked.reason.startswith("whether the node is in use is unknown: the processes on GPU 2 could not be")
    assert blocked.next_step == (
        "give nodegate root (ansible_become: true); if it has it, drain and reboot the node; then run again"
    )


@pytest.mark.parametrize("measurement", BY_NAME)
def test_a_node_whose_processes_are_listed_needs_neither_root_nor_slurm(tmp_path, measurement):
    assert gate(tmp_path, no_root_and_no_slurm, measurement, Waivers()) is None


def test_what_is_known_to_be_wrong_is_said_before_what_is_unknown(tmp_path):
    def both(machine):
        gpu_3_is_lost(machine)
        nobody_can_list_the_processes_on_gpu_2(machine)

    blocked = gate(tmp_path, both, "burn", Waivers())
    assert blocked is not None
    assert blocked.reason.startswith("blocked by gpu.lost: GPU 3")
    waived_only = gate(tmp_path / "waived", both, "burn", waived("gpu.lost"))
    assert waived_only is not None
    assert waived_only.reason.startswith("whether the node is in use is unknown: ")


def test_what_does_harm_under_load_is_what_some_measurement_rests_on():
    assert {name for each in BY_NAME.values() for name in each.rests_on} >= HARMED
