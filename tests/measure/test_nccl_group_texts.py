"""NCCL over groups of nodes without any node: bisection, groups, the words of a launch, and what it left."""

import math

import pytest
from fleet.machine import Machine, facts_of
from support.nccl_fleet import facts, table

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.measure.groups import plan
from nodegate.measure.groups.launch import for_node
from nodegate.measure.groups.plan import bisect, rounds_for
from nodegate.measure.groups.result import parse, read
from nodegate.measure.groups.run import NCCL_GROUPS
from nodegate.measure.groups.tour import disjoint
from nodegate.measure.measurement import Inapplicable
from nodegate.measure.program_run import not_begun
from nodegate.records.program_run import Attempt, LaunchPlan, Plan, ProgramRun


def simulated(count, is_bad):
    """Bisection of a whole fleet in which a group is bad if `is_bad` says so of its nodes."""
    launches = []

    def run(groups):
        nodes = [name for group in groups for name in group.nodes]
        assert len(nodes) == len(set(nodes)), "a node is in two launches at once"
        assert all(len(group.nodes) > 1 for group in groups)
        launches.append(len(groups))
        return [not is_bad(frozenset(group.nodes)) for group in groups]

    whole = tuple(f"n{number}" for number in range(count))
    return bisect([whole], (), run, may_go_on=lambda: len(launches) < 100), launches


@pytest.mark.parametrize("count", [3, 4, 5, 7, 8, 16, 33, 100])
def test_one_bad_node_is_found_wherever_it_is_by_few_launches(count):
    for bad in {0, 1, count // 2, count - 2, count - 1}:
        found, launches = simulated(count, lambda nodes, bad=bad: f"n{bad}" in nodes)
        assert found.blamed == [f"n{bad}"]
        assert len(found.cleared) == count - 1
        assert sum(launches) <= 2 * math.log2(count) + 4
        assert len(launches) <= rounds_for(count)


def test_the_search_ends_with_its_time():
    found = bisect([("a", "b", "c", "d")], [], lambda groups: [False] * len(groups), may_go_on=lambda: False)
    assert found.undecided == [("a", "b", "c", "d")]


def test_groups_of_a_fleet():
    names = [f"n{number}" for number in range(5)]
    assert [group.nodes for group in plan.pairs(names)] == [("n0", "n1"), ("n2", "n3"), ("n3", "n4")]
    assert plan.pairs(["n0"]) == ()
    rack_of = dict(zip(names, ("a", "a", "a", "b", ""), strict=True))
    assert [group.name for group in plan.racks(names, rack_of)] == ["rack a"]
    assert plan.racks(names, dict.fromkeys(names, "a")) == ()
    assert plan.fleet(names[:2]) == ()
    assert disjoint([("a", "b"), ("c",), ("b", "d"), ()]) == [("c",), ("a", "b", "d")]


def test_no_node_is_in_two_launches_at_once():
    names = [f"n{number}" for number in range(7)]
    for wave in plan.waves([*plan.pairs(names), *plan.fleet(names)]):
        nodes = [name for group in wave for name in group.nodes]
        assert len(nodes) == len(set(nodes))


TWO = table("all_reduce", 2, 380.0)
BEGUN = "nodegate: ranks begin on gpu1\nssh: connect to host gpu2 port 22: slow\n"
# Open MPI 4.1.4 between nodes whose docker0 has one address.
DOCKER = """\
nodegate: ranks begin on gpu1
nodegate: ranks begin on gpu2
--------------------------------------------------------------------------
WARNING: Open MPI accepted a TCP connection from what appears to be a
another Open MPI process but cannot find a corresponding process
entry for that peer.
"""


def a_run(**changes):
    group = {"count": changes.pop("count", 2), "gpus_of_node": 1, "turns": 4, "builds": 1}
    launch = LaunchPlan("pair gpu1+gpu2", "pair", "gpu1", ("gpu1", "gpu2"), **group)
    plan = Plan(gpus=changes.pop("gpus", 2), size_bytes=1 << 30, limit_s=60.0, launch=launch)
    fields = {"stdout": TWO, "exit_code": 0, "duration_s": 5.0, **changes}
    return ProgramRun("all_reduce", plan=plan, **fields)


def test_the_ranks_of_a_big_group_are_kept_by_its_head_only():
    ran = a_run(stdout=table("all_reduce", 10_000, 380.0), count=1250, gpus=10000)
    other = for_node(ran, "gpu7")
    assert for_node(ran, "gpu1").stdout == ran.stdout
    assert len(other.stdout) < 2000
    assert "9999 lines of ranks left out by nodegate" in other.stdout
    assert (read(other).ending, read(other).why) == (read(ran).ending, read(ran).why)


NO_DAEMON = "A daemon failed to report back after being spawned."
NO_PMIX = "version 16.05 or later: configure and build SLURM --with-pmix."
NO_NAME = "ssh: Could not resolve hostname gpu2: Name or service not known"
NOTHING = "no GPU was listed within 60 s: no rank began (0 of 2 nodes), and nothing was printed"
TWICE = "ranks began on gpu1, gpu2 (2 of 2 nodes); the launch failed: Open MPI accepted a TCP connection"


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "ending", "why"),  # without a code: at its time limit
    [
        ("", "", 0, "incomplete", "the output of nccl-tests is empty"),
        ("", "", None, "refused", NOTHING),
        ("", BEGUN, None, "refused", "60 s: ranks began on gpu1 (1 of 2 nodes); it says: ssh: connect to host gpu2"),
        ("# nThread 1 nGpus 1", DOCKER, None, "refused", TWICE),
        (TWO.partition("NCCL version")[0], "", None, "hung", "did not end within 60 s, and finished no size"),
        ("", NO_PMIX, 1, "refused", "the launch failed: configure and build SLURM --with-pmix"),
        (table("all_reduce", 3, 380.0), "", 0, "incomplete", "3 of 2 GPUs took part"),
        (TWO, "", 139, "incomplete", "exit code 139"),
        ("x" * 100000, "", 1, "incomplete", "is not from nccl-tests"),
        ("", NO_DAEMON, 255, "refused", "A daemon failed to report back"),
        ("", NO_NAME, 255, "refused", "Could not resolve hostname gpu2"),
        ("", "srun: error: Unable to allocate resources: x", 1, "refused", "allocate"),
        (TWO, "", 0, "whole", ""),
    ],
)
def test_what_a_launch_left_is_read_for_what_it_is(stdout, stderr, code, ending, why):
    run = read(a_run(stdout=stdout, stderr=stderr, exit_code=code, timed_out=code is None))
    assert run.ending == ending
    assert why in run.why


def test_a_plan_that_cannot_be_leaves_a_launch_incomplete():
    run = read(a_run(stdout="", gpus=-3, count=-1))
    assert (run.ending, "empty" in run.why) == ("incomplete", True)


def test_nothing_at_all_is_a_reason_and_no_result():
    with pytest.raises(CannotMeasure, match="the connection broke"):
        parse([not_begun(CannotMeasure("the connection broke", next_step="see sshd"))])
    with pytest.raises(CannotMeasure, match="nothing was launched"):
        parse([Attempt()])


def test_it_rests_on_checks_that_there_are_and_that_need_no_load():
    assert set(NCCL_GROUPS.rests_on) <= {check.id for check in suite.checks()}


def test_a_node_without_gpus_has_no_collective():
    machine = Machine.hgx_h100()
    for _ in range(8):
        machine.remove_gpu(0)
    assert NCCL_GROUPS.applies(facts_of(machine)) == Inapplicable("no GPUs")
    assert NCCL_GROUPS.applies(facts(1)) is None
