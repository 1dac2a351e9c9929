"""NCCL over groups of nodes: over real sshds, with a stand-in for mpirun whose ranks meet and hang; and bisection."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from support.nccl_fleet import COLLECTIVES, DELIVERY, NIGHTLY, NcclFleet, replayed, table
from support.rdma_fleet import Crew
from support.stalls import undisturbed

from lab.processes import naming, wait_until
from nodegate.errors import CannotMeasure
from nodegate.measure.groups.launch import plan_of
from nodegate.measure.groups.result import NAMES
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.metric import Metric
from nodegate.numbers.suspects import Doubt
from nodegate.records.plain import to_plain
from nodegate.records.program_run import ProgramRun

TESTS = Path(__file__).resolve().parents[1]
HANGING = replace(NIGHTLY, group_s=4.0)
ALL_RANKS = 5  # processes that name the ranks' program: mpirun, and of each of two ranks its shell and its watcher


def kinds(found, name):
    return {(run.plan.kind, run.plan.group) for run in found[name].runs}


# Pairs, racks, the fleet


def test_at_night_each_node_is_measured_with_its_neighbour(tmp_path):
    fleet = NcclFleet(tmp_path, 3)
    found = fleet.measure()
    assert kinds(found, "gpu1") == {("pair", "pair gpu1+gpu2")}
    assert kinds(found, "gpu2") == {("pair", "pair gpu1+gpu2"), ("pair", "pair gpu2+gpu3")}
    assert {metric.name for metric in found["gpu3"].metrics} == {
        "nccl.group_all_reduce_gb_per_s",
        "nccl.group_alltoall_gb_per_s",
        "nccl.group_sendrecv_gb_per_s",
    }
    assert found["gpu1"].metrics[0].conditions == {
        "tool": "nccl-tests",
        "tool_version": "2.19.6",
        "nccl": "2.27.3",
        "cuda": "12.8",
        "group": "pair",
        "nodes": "2",
        "gpus": "2",
        "size_bytes": str(1 << 30),
        "dtype": "float",
    }
    assert naming(fleet.folder) == []


def test_each_node_by_itself_is_measured_by_its_own_time_and_the_report_is_taken_away(tmp_path):
    fleet = NcclFleet(tmp_path, 3, gpus=2, durations=DELIVERY, nodes={"gpu2": "slow"})
    runs = fleet.runs()
    found = {name: replayed([rans]) for name, rans in runs.items()}
    assert kinds(found, "gpu1") == {
        ("pair", "pair gpu1+gpu2"),
        ("apart", "fleet, each node by itself"),
        ("fleet", "fleet"),
    }
    own = {name: each.named("nccl.apart_all_reduce_gb_per_s")[0].best for name, each in found.items()}
    assert own == {"gpu1": 479.992, "gpu2": 288.002, "gpu3": 479.992}
    assert "do-not-keep-me" not in json.dumps([to_plain(attempt) for attempt in runs.values()])
    assert any("-J" in ran.argv for ran in runs["gpu1"].runs)
    assert not [ran.argv[-1] for ran in runs["gpu1"].runs if "-J" in ran.argv and Path(ran.argv[-1]).parent.exists()]


def test_a_version_without_times_by_process_is_not_asked_for_them(tmp_path):
    found = NcclFleet(tmp_path, 3, durations=DELIVERY, layout="2.17.5").measure()
    assert kinds(found, "gpu1") == {("pair", "pair gpu1+gpu2"), ("fleet", "fleet")}


def test_a_fleet_of_one_node_has_nothing_to_measure(tmp_path):
    found = NcclFleet(tmp_path, 1).measure()["gpu1"]
    assert (found.runs, found.metrics, found.alone) == ((), (), "no other node takes part")


def test_srun_launches_where_the_inventory_says_so_with_its_settings(tmp_path):
    expected = {"launcher": "slurm", "nccl_env": {"NCCL_SOCKET_IFNAME": "eth0"}}
    runs = NcclFleet(tmp_path, 2, launcher="srun", expected=expected).runs()["gpu1"]
    argv = runs.runs[0].argv
    assert Path(argv[0]).name == "srun"
    assert ("-w", "gpu1,gpu2") in pairwise(argv)
    assert "NCCL_SOCKET_IFNAME=eth0" in argv
    assert argv[argv.index("NCCL_ALGO") - 1] == "-u"  # a stale choice of the login
    assert [run.ending for run in replayed([runs]).runs] == ["whole"] * 3


def test_nccl_says_on_each_node_what_it_uses_once(tmp_path):
    fleet = NcclFleet(tmp_path, 2, gpus=2, network={"gpu2": "Socket"})
    # Here both are one machine with one host name; the ranks call themselves by the names of the inventory.
    kept = {name: replace(attempt, hostname="") for name, attempt in fleet.runs().items()}
    found = {name: replayed([attempt]).runs for name, attempt in kept.items()}
    runs = {name: attempt.runs for name, attempt in kept.items()}
    said = {name: {run.what: run.log.network for run in each if run.log} for name, each in found.items()}
    assert said == {"gpu1": {"all_reduce": "IB"}, "gpu2": {"all_reduce": "Socket"}}
    assert runs["gpu1"][0].stdout.count("Using network") == 2  # of four ranks, the first on each node
    assert "NCCL INFO" not in runs["gpu1"][1].stdout
    assert {run.ending for run in found["gpu1"]} == {"whole"}


# Hangs, failures, wrong data: the node is found


class Simulated:
    """Launches that are not made: what nccl-tests would print over these nodes, without a process."""

    def __init__(
        self, tmp_path, monkeypatch, count, *, durations=NIGHTLY, racks=None, hang_from=10**6, slow_from=2, **faults
    ):
        self.fleet = NcclFleet(tmp_path, count, durations=durations, racks=racks)
        self.fleet.here = True
        self.faults, self.hang_from, self.slow_from, self.launched = faults, hang_from, slow_from, []
        monkeypatch.setattr("nodegate.measure.groups.launch_session.run_group", self.run_group)

    def run_group(self, launch, group, members, mark):
        self.launched.append(group.name)
        faults = [self.faults.get(member.name, "") for member in members]
        own = [fault.rpartition(" ")[2] for fault in faults if fault.rpartition(" ")[0] in ("", launch.collective)]
        is_slow = "slow" in own and len(members) >= self.slow_from
        text = table(launch.collective, len(members), 200.0 if is_slow else 380.0, 3 if "wrong" in own else 0)
        changes = {"stdout": text, "exit_code": int("wrong" in own)}
        if "hang" in own or (len(members) >= self.hang_from and not launch.apart):
            changes = {"stdout": text[: text.index("NCCL version")], "exit_code": None, "timed_out": True}
        if "cuda" in own:
            said = "gpu9: Test CUDA failure common.cu:303 'uncorrectable ECC error encountered'\n"
            changes = {"stdout": said, "exit_code": 2}
        plan = replace(plan_of(launch, group, members), size_bytes=1 << 30)
        return ProgramRun(launch.collective, plan=plan, duration_s=9.0, **changes)

    def measure(self):
        return self.fleet.measure()


def named(found):
    return {name for each in found.values() for run in each.runs for name in run.notes.blamed}


@pytest.mark.parametrize("fault", ["hang", "cuda", "wrong"])
def test_a_node_that_spoils_its_pair_is_found_with_one_that_is_well(tmp_path, monkeypatch, fault):
    found = Simulated(tmp_path, monkeypatch, 4, gpu2=fault).measure()
    assert named(found) == {"gpu2"}
    assert any(run.partners_well and not run.is_well for run in found["gpu2"].runs)
    bad = next(run for run in found["gpu1"].runs if run.plan.group == "pair gpu1+gpu2")
    assert found["gpu1"].excuses(bad) == ("gpu2",)
    assert {metric.name for metric in found["gpu1"].metrics} == {metric.name for metric in found["gpu3"].metrics}


def test_two_nodes_without_a_third_cannot_be_told_apart(tmp_path, monkeypatch):
    found = Simulated(tmp_path, monkeypatch, 2, gpu2="hang").measure()
    assert named(found) == set()
    assert all(run.ending == "hung" for each in found.values() for run in each.runs)
    assert found["gpu1"].runs[0].notes.searched.startswith("it is one of gpu1, gpu2")


def test_racks_and_the_fleet_come_after_the_pairs_and_leave_bad_nodes_out(tmp_path, monkeypatch):
    racks = dict.fromkeys(("gpu1", "gpu2", "gpu3", "gpu4"), "a1") | {"gpu5": "b1", "gpu6": "b1"}
    simulated = Simulated(tmp_path, monkeypatch, 6, durations=DELIVERY, racks=racks, gpu4="hang")
    found = simulated.measure()
    assert named(found) == {"gpu4"}
    rack = next(run for run in found["gpu1"].runs if run.plan.kind == "rack")
    assert rack.plan.nodes == ("gpu1", "gpu2", "gpu3")
    fleet = next(run for run in found["gpu6"].runs if run.plan.kind == "fleet")
    assert (fleet.plan.count, fleet.ending) == (5, "whole")
    assert not any(run.plan.kind in {"rack", "fleet", "apart"} for run in found["gpu4"].runs), "it costs nobody time"
    apart = [run for name in found if name != "gpu4" for run in found[name].runs if run.plan.kind == "apart"]
    assert {(run.plan.count, run.is_well) for run in apart} == {(5, True)}


def test_a_fleet_that_hangs_only_as_a_whole_names_nobody(tmp_path, monkeypatch):
    found = Simulated(tmp_path, monkeypatch, 4, durations=DELIVERY, hang_from=4).measure()
    assert named(found) == set()
    run = next(run for run in found["gpu1"].runs if run.plan.kind == "fleet")
    assert run.notes.searched == "gpu1, gpu2, gpu3, gpu4 fail only together, and succeed in halves"


def test_suspects_are_measured_again_with_nodes_that_passed(tmp_path, monkeypatch):
    fleet = Simulated(tmp_path, monkeypatch, 4, gpu2="slow").fleet
    with fleet.targets() as targets:
        first = NCCL_GROUPS.measure(targets, fleet.pool)
        second = NCCL_GROUPS.again(targets, fleet.pool, {"gpu1": (), "gpu2": ()})
    assert set(second) == {"gpu1", "gpu2"}
    values = {name: replayed([first[name], second[name]]).metrics[0].values for name in second}
    assert values == {"gpu1": (380.0,), "gpu2": (200.0,)}


def doubted(found, *, enough=350.0):
    """The nodes with a number below what they must reach, as the run finds them."""
    low = {name: [each for each in measured.metrics if each.best < enough] for name, measured in found.items()}
    return {name: tuple(Doubt(metric, enough) for metric in metrics) for name, metrics in low.items() if metrics}


def looked_at_twice(simulated):
    """What is known of each node after one more look at those that were slow; and what was launched for it."""
    fleet = simulated.fleet
    with fleet.targets() as targets:
        first = NCCL_GROUPS.measure(targets, fleet.pool)
        simulated.launched.clear()
        suspects = doubted({name: replayed([rans]) for name, rans in first.items()})
        more = NCCL_GROUPS.again(targets, fleet.pool, suspects)
    return {name: replayed([first[name], *([more[name]] if name in more else [])]) for name in first}


def over(found, name, kind):
    """What a node has of the launches over a rack or the fleet: how many nodes each had, and its best all_reduce."""
    chosen = [each for each in found[name].named(NAMES["all_reduce"]) if each.conditions["group"] == kind]
    return {(each.conditions["nodes"], each.best) for each in chosen}


def test_a_fleet_that_is_slow_by_one_node_is_launched_again_without_it(tmp_path, monkeypatch):
    simulated = Simulated(tmp_path, monkeypatch, 6, durations=DELIVERY, gpu5="slow")
    found = looked_at_twice(simulated)
    assert over(found, "gpu1", "fleet") == over(found, "gpu6", "fleet") == {("5", 380.0)}
    assert over(found, "gpu5", "fleet") == {("6", 200.0)}
    assert simulated.launched.count("fleet") == 0, "that gpu5 is slow was seen in its pairs"


def test_each_rack_without_its_slow_node_and_the_fleet_without_all_of_them(tmp_path, monkeypatch):
    racks = {f"gpu{number}": f"r{(number + 3) // 4}" for number in range(1, 13)}
    simulated = Simulated(tmp_path, monkeypatch, 12, durations=DELIVERY, racks=racks, gpu3="slow", gpu8="slow")
    found = looked_at_twice(simulated)
    assert over(found, "gpu1", "rack") == over(found, "gpu6", "rack") == {("3", 380.0)}
    assert over(found, "gpu9", "rack") == {("4", 380.0)}
    assert over(found, "gpu1", "fleet") == over(found, "gpu12", "fleet") == {("10", 380.0)}
    assert over(found, "gpu3", "rack") == {("4", 200.0)}


def test_a_fleet_that_was_slow_once_is_launched_again_as_a_whole(tmp_path, monkeypatch):
    simulated = Simulated(tmp_path, monkeypatch, 6, durations=DELIVERY)
    with simulated.fleet.targets() as targets:
        slow = Metric(
            NAMES["all_reduce"], (200.0,), "GB/s", conditions={"group": "fleet", "nodes": "6"}, launch="fleet"
        )
        suspects = {target.node.name: (Doubt(slow, 350.0),) for target in targets}
        found = {
            name: replayed([rans]) for name, rans in NCCL_GROUPS.again(targets, simulated.fleet.pool, suspects).items()
        }
    assert set(simulated.launched) == {"fleet"}
    assert over(found, "gpu4", "fleet") == {("6", 380.0)}


def test_a_fleet_that_is_slow_alike_names_nobody(tmp_path, monkeypatch):
    simulated = Simulated(
        tmp_path, monkeypatch, 6, durations=DELIVERY, **dict.fromkeys((f"gpu{n}" for n in range(1, 7)), "slow")
    )
    found = looked_at_twice(simulated)
    assert named(found) == set()
    assert over(found, "gpu1", "fleet") == {("6", 200.0)}


# What cannot be launched


def test_a_node_without_the_programs_says_so_and_the_others_are_measured(tmp_path):
    fleet = NcclFleet(tmp_path, 3)
    fleet.without["gpu1"] = tuple(f"{name}_perf_mpi" for name in COLLECTIVES)
    runs = fleet.runs()
    with pytest.raises(CannotMeasure, match="no all_reduce_perf_mpi on the node"):
        replayed([runs["gpu1"]])
    assert kinds({"gpu2": replayed([runs["gpu2"]])}, "gpu2") == {("pair", "pair gpu2+gpu3")}


def test_another_node_of_the_group_launches_where_the_first_cannot(tmp_path):
    fleet = NcclFleet(tmp_path, 2)
    fleet.without["gpu1"] = ("mpirun", "srun")
    assert {run.plan.head for run in fleet.measure()["gpu1"].runs} == {"gpu2"}


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        ({"slots": 0}, "the launch failed: There are not enough slots available"),
        ({"refuses": ["gpu1", "gpu2"]}, "Permission denied (publickey)."),
        ({"version": "HYDRA build details:"}, "is not Open MPI's: HYDRA build details:"),
    ],
)
def test_a_launch_that_is_refused_is_no_fault_of_a_gpu(tmp_path, launch, why):
    found = NcclFleet(tmp_path, 2, launch=launch).measure()["gpu1"]
    assert {run.ending for run in found.runs} == {"refused"}
    assert why in found.runs[0].why
    assert found.runs[0].next_step


def test_no_launcher_on_any_node_is_a_reason_with_a_way_out(tmp_path):
    fleet = NcclFleet(tmp_path, 2)
    fleet.without = dict.fromkeys(("gpu1", "gpu2"), ("mpirun", "srun"))
    run = fleet.measure()["gpu2"].runs[0]
    assert (run.ending, run.why, run.next_step) == ("refused", "no mpirun on the node", "install it")


# Nothing is left behind


@pytest.mark.parametrize(("fault", "ending"), [("hang", "hung"), ("absent", "refused")])
def test_daemons_that_do_not_notice_the_end_of_mpirun_are_ended_with_their_ranks(tmp_path, fault, ending):
    fleet = NcclFleet(tmp_path, 2, nodes={"gpu2": fault}, launch={"deaf": True}, durations=HANGING)
    assert {run.ending for run in fleet.measure()["gpu1"].runs} == {ending}
    assert wait_until(lambda: not naming(fleet.folder)), naming(fleet.folder)


SCRIPT = """
import sys; sys.path.insert(0, {tests!r})
import pickle
from pathlib import Path
from support.nccl_fleet import NIGHTLY, Folder, facts
from support.rdma_fleet import Crew
from nodegate.measure.measurement import Target
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.transport import Options, connect
nodes = pickle.loads(Path({nodes!r}).read_bytes())
targets = [Target(node, connect(node, Options()), facts(1), Folder(Path({tools!r})), NIGHTLY) for node in nodes]
NCCL_GROUPS.measure(targets, Crew())
"""


# A node has two seconds to tidy up. One that stands still for them leaves it to the ranks' own limit.
def test_a_controller_that_is_killed_leaves_no_process_on_any_node(tmp_path):
    def left():
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        fleet = NcclFleet(folder, 3, nodes={"gpu2": "hang"}, launch={"deaf": True})
        with fleet.fleet:
            (folder / "nodes").write_bytes(pickle.dumps(fleet.fleet.nodes))
            script = SCRIPT.format(tests=str(TESTS), nodes=str(folder / "nodes"), tools=str(fleet.folder))
            controller = subprocess.Popen([sys.executable, "-c", script])
            assert wait_until(lambda: all_ranks_run(fleet), 60)
            os.kill(controller.pid, signal.SIGKILL)
            controller.wait()
            wait_until(lambda: not naming(fleet.folder))
            return naming(fleet.folder)

    assert undisturbed(left) == []


class Ended(Crew):
    """As a run's crew: its wait ends when the run does."""

    def at_once(self, jobs):
        done = {}
        threads = [threading.Thread(target=self._do, args=(done, *job), daemon=True) for job in jobs.items()]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.cancelled or not any(thread.is_alive() for thread in threads), 120)
        return {name: done.get(name, CannotMeasure("the run was ended", next_step="go on")) for name in jobs}

    @staticmethod
    def _do(done, name, job):
        with contextlib.suppress(CannotMeasure):
            done[name] = job()


def test_the_end_of_the_run_leaves_no_process_on_any_node(tmp_path):
    def left():
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        fleet, pool = NcclFleet(folder, 2, nodes={"gpu1": "hang"}, launch={"deaf": True}), Ended()
        with fleet.targets() as targets:
            measuring = threading.Thread(target=NCCL_GROUPS.measure, args=(targets, pool))
            measuring.start()
            assert wait_until(lambda: all_ranks_run(fleet), 60)
            pool.cancelled = True
            measuring.join(30)
        assert not measuring.is_alive()
        wait_until(lambda: not naming(fleet.folder))
        return naming(fleet.folder)

    assert undisturbed(left) == []


def all_ranks_run(fleet):
    return sum("nodegate-rank" in line for line in naming(fleet.folder)) >= ALL_RANKS
