"""NCCL over groups of nodes: over real sshds, with a stand-in for mpirun whose ranks meet and hang; and bisection."""

import contextlib
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
from support.nccl_fleet import COLLECTIVES, NIGHTLY, NcclFleet, replayed
from support.rdma_fleet import Crew
from support.stalls import undisturbed

from lab.processes import naming, wait_until
from nodegate.errors import CannotMeasure
from nodegate.measure.groups.run import NCCL_GROUPS

TESTS = Path(__file__).resolve().parents[1]
HANGING = replace(NIGHTLY, group_s=4.0)
ALL_RANKS = 5  # processes that name the ranks' program: mpirun, and of each of two ranks its shell and its watcher


def kinds(found, name):
    return {(run.plan.kind, run.plan.group) for run in found[name].runs}


def test_at_night_each_node_is_measured_with_its_neighbour(tmp_path):
    fleet = NcclFleet(tmp_path, 3)
    found = fleet.measure()
    assert kinds(found, "gpu1") == {("pair", "pair gpu1+gpu2")}
    assert kinds(found, "gpu2") == {("pair", "pair gpu1+gpu2"), ("pair", "pair gpu2+gpu3")}
    assert {metric.name for metric in found["gpu3"].metrics} == {f"nccl.group_{each}_gb_per_s" for each in COLLECTIVES}
    conditions = {"tool": "nccl-tests", "tool_version": "2.19.6", "nccl": "2.27.3", "cuda": "12.8", "dtype": "float"}
    conditions |= {"group": "pair", "nodes": "2", "gpus": "2", "size_bytes": str(1 << 30)}
    assert found["gpu1"].metrics[0].conditions == conditions
    assert naming(fleet.folder) == []


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


@pytest.mark.parametrize(("fault", "ending"), [("hang", "hung"), ("absent", "refused")])
def test_daemons_that_do_not_notice_the_end_of_mpirun_are_ended_with_their_ranks(tmp_path, fault, ending):
    fleet = NcclFleet(tmp_path, 2, nodes={"gpu2": fault}, launch={"deaf": True}, durations=HANGING)
    assert {run.ending for run in fleet.measure()["gpu1"].runs} == {ending}
    assert wait_until(lambda: not naming(fleet.folder)), naming(fleet.folder)


SCRIPT = """
import sys; sys.path.insert(0, {tests!r})
import pickle
from pathlib import Path
from support.nccl_fleet import NIGHTLY, facts
from support.rdma_fleet import Crew
from support.tool_folder import ToolFolder
from nodegate.measure.measurement import Target
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.transport import Options, connect
nodes = pickle.loads(Path({nodes!r}).read_bytes())
targets = [Target(node, connect(node, Options()), facts(1), ToolFolder(Path({tools!r})), NIGHTLY) for node in nodes]
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


@pytest.mark.long
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
