"""RDMA measured between nodes of this machine: real sessions and connections, a stand-in for perftest."""

import contextlib
import math
import os
import re
import subprocess
from dataclasses import replace
from functools import partial

import pytest
from fleet.machine import Machine, facts_of
from support.rdma_fleet import Crew, RdmaFleet, another_length
from support.rdma_links import link

from lab.processes import running, wait_until
from nodegate.errors import CannotMeasure
from nodegate.measure.rdma import asked, perftest_runner
from nodegate.measure.rdma import node_pair as rdma_pair
from nodegate.measure.rdma import rails as rdma_rails
from nodegate.measure.rdma import run as rdma
from nodegate.measure.rdma.findings import Fault, blamed
from nodegate.measure.rdma.perftest_runner import Program
from nodegate.measure.rdma.result import BOTH_AT_ONCE, doubtful, parse
from nodegate.node import Node
from nodegate.records.finding import Limit
from nodegate.records.program_run import Attempt, Role

WRITE, READ = "rdma.write_gbps", "rdma.read_gbps"


@pytest.fixture
def made(tmp_path):
    with contextlib.ExitStack() as sessions:
        yield partial(RdmaFleet, tmp_path, sessions=sessions)


@pytest.fixture
def impatient(monkeypatch):
    """What hangs is ended sooner than on a real fabric; a loaded machine needs a few seconds to start Python."""
    monkeypatch.setattr(rdma_pair, "SETUP_S", 20.0)
    monkeypatch.setattr(perftest_runner, "SERVER_END_S", 1.0)


@pytest.fixture
def two_sockets(tmp_path, monkeypatch):
    """A tree of sysfs in which mlx5_1 is near this machine's last CPU, and nobody knows where mlx5_0 is."""
    files = {"class/infiniband/mlx5_0/device/numa_node": "-1", "devices/system/node/has_cpu": "0-1"}
    files |= {"class/infiniband/mlx5_1/device/numa_node": "1"}
    files["class/infiniband/mlx5_1/device/local_cpulist"] = str(max(os.sched_getaffinity(0)))
    for name, text in files.items():
        file = tmp_path / "tree" / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    monkeypatch.setenv("NODEGATE_PROBE_ROOT", str(tmp_path / "tree"))


def measured(fleet, pool=None):
    runs = rdma.measure(fleet.targets(), pool or Crew())
    assert left_behind(fleet) == []
    return {name: parse([each]) for name, each in runs.items()}


def left_behind(fleet):
    tools = [str(fleet.folder / name / tool) for name in fleet.names for tool in ("ib_write_bw", "ib_read_bw")]
    return [pid for tool in tools for pid in running(tool)]


def value(found, name, device="mlx5_0"):
    (metric,) = [metric for metric in found.named(name) if metric.device == device]
    return metric.best


def test_every_rail_has_its_numbers_on_both_ends(made):
    found = measured(made().device("gpu02", "mlx5_1", gbps=120.25, us=2.75))
    for name, partner in (("gpu01", "gpu02"), ("gpu02", "gpu01")):
        node = found[name]
        assert node.planned == {"mlx5_0", "mlx5_1"}
        assert (value(node, WRITE), value(node, READ)) == (195.5, 195.5)
        assert (value(node, WRITE, "mlx5_1"), value(node, READ, "mlx5_1")) == (120.25, 120.25)
        assert value(node, "rdma.write_latency_us") == 1.9
        assert value(node, "rdma.read_latency_us", "mlx5_1") == 2.75
        assert {(run.link.peer, run.trouble) for run in node.runs} == {(partner, None)}
        assert node.partners == 1
        conditions = {"tool": "ib_write_bw", "tool_version": "6.24", "size_bytes": "1048576", "qps": "4"}
        assert node.named(WRITE)[0].conditions == conditions | {"memory": "host", "path": "between"}


@pytest.mark.usefixtures("two_sockets")
def test_every_program_runs_near_its_nic_and_the_result_says_so(made):
    fleet = made(durations=another_length(rounds=1))
    targets = fleet.targets()
    runs = rdma.measure(targets, Crew())
    last = str(max(os.sched_getaffinity(0)))
    for ran in (ran for each in runs.values() for ran in each.runs if "mlx5_1" in ran.plan.link.device):
        assert {(end.cpus, end.near) for end in (ran.link.server, ran.link.client)} == {(last, "NUMA node 1")}
    node = parse([runs["gpu01"]])
    places = {metric.device: dict(metric.over_runs) for metric in node.named(WRITE)}
    assert places == {"mlx5_0": {}, "mlx5_1": {"place": "near the NICs"}}
    (run,) = node.of(WRITE, "mlx5_0")
    assert run.unbound == "sysfs does not say to which of 2 NUMA nodes mlx5_0 belongs"


def test_all_pairs_and_all_rails_of_a_round_are_measured_at_once(made):
    pool = Crew()
    measured(made(names=("gpu01", "gpu02", "gpu03", "gpu04"), durations=another_length(rounds=1)), pool)
    assert [sorted(asked) for asked in pool.asked[1:]] == [["gpu01 - gpu04", "gpu02 - gpu03"]] * 2  # latency, then load


def test_a_slow_nic_is_slow_with_everybody_and_its_partners_are_not(made):
    names = ("gpu01", "gpu02", "gpu03", "gpu04")
    found = measured(made(names=names, rails=1).device("gpu03", "mlx5_0", gbps=100.0))
    assert {name: value(found[name], WRITE) for name in names} == dict.fromkeys(names, 195.5) | {"gpu03": 100.0}
    assert {run.notes.peer_best for run in found["gpu03"].of(WRITE)} == {195.5}
    assert {run.link.peer: run.notes.peer_best for run in found["gpu01"].of(WRITE)}["gpu03"] == 100.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("hang", "link", "hung: no result within"),
        ("cut", "link", "stalled: 0 iterations"),
        ("completion", "link", r"completion with error, status 12 \(transport retry counter exceeded\)"),
        ("gid", "link", "Found Incompatibility issue with GID types"),
        ("half", "setup", "has no result row"),
        ("deaf", "setup", "does not listen on port"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_a_fault_is_told_on_both_ends_and_leaves_nothing_behind(made, fault, kind, said):
    fleet = made(durations=another_length(rounds=1))
    targets = fleet.device("gpu01", "mlx5_1", fault=fault).targets()
    node_pair = rdma.NodePair(*(rdma.prepare(target) for target in targets), "1")
    runs = rdma_pair.runs_of(node_pair, [rdma.WRITE])
    assert left_behind(fleet) == []
    for name in fleet.names:
        own = tuple(ran for both in runs for owner, ran in both if owner == name)
        node = parse([Attempt(own, rails=("mlx5_0", "mlx5_1"), partners=1)])
        (run,) = node.of(WRITE, "mlx5_1")
        assert run.value is None
        assert run.trouble.kind == kind
        assert re.search(said, run.trouble.said)
        assert value(node, WRITE) == 195.5, "the other rail is not touched"


def test_a_rail_that_does_not_reach_another_one_is_unknown_and_does_not_fail(made):
    fleet = made(durations=another_length(rounds=1)).device("gpu01", "mlx5_1", fault="gid")
    del fleet.machines["gpu02"].sections["infiniband"]["mlx5_1"]  # down, say: its counterpart meets mlx5_0
    for node, found in measured(fleet).items():
        kinds = {(run.device, run.link.peer_device): run.trouble and run.trouble.kind for run in found.of(WRITE)}
        other = ("mlx5_1", "mlx5_0") if node == "gpu01" else ("mlx5_0", "mlx5_1")
        assert kinds == {("mlx5_0", "mlx5_0"): None, other: "setup"}


def test_a_node_without_perftest_is_not_paired_and_says_so(made):
    fleet = made(names=("gpu01", "gpu02", "gpu03"), rails=1)
    fleet.tools["gpu02"] = ()
    targets = fleet.targets()
    runs = rdma.measure(targets, Crew())
    with pytest.raises(CannotMeasure, match="no ib_write_bw on the node"):
        parse([runs["gpu02"]])
    assert value(parse([runs["gpu01"]]), WRITE) == 195.5


def test_a_node_that_is_lost_in_mid_run_takes_no_other_with_it(made):
    fleet = made(names=("gpu01", "gpu02", "gpu03"), rails=1)
    targets = fleet.targets()

    class Losing(Crew):
        def at_once(self, jobs):
            if len(self.asked) == 2:
                targets[1].session.close()
            return super().at_once(jobs)

    found = {name: parse([runs]) for name, runs in rdma.measure(targets, Losing()).items()}
    assert value(found["gpu01"], WRITE) == value(found["gpu03"], WRITE) == 195.5
    assert {(run.value, run.trouble.kind) for run in found["gpu02"].of(WRITE)} == {(None, "setup")}
    assert "the session is closed" in found["gpu02"].of(WRITE)[0].trouble.said


def test_one_node_alone_is_measured_nic_to_nic(made):
    fleet = made(names=("gpu01",), rails=3).device("gpu01", "mlx5_2", inside_gbps=88.0)
    node = measured(fleet)["gpu01"]
    assert node.partners == 0
    assert {metric.device: metric.best for metric in node.metrics} == {"mlx5_0": 195.5, "mlx5_1": 195.5, "mlx5_2": 88.0}
    assert {metric.name for metric in node.metrics} == {"rdma.inside_gbps"}


def test_at_delivery_every_node_is_measured_inside_and_in_both_directions_at_once_too(made, monkeypatch):
    monkeypatch.setattr(asked, "_TIMED_FROM_S", math.inf)  # the stand-in does not work for so long
    durations = another_length(rounds=1, link_s=rdma.INSIDE_FROM_S)
    found = measured(made(durations=durations).device("gpu01", "mlx5_1", gbps=80.5))
    assert {name: len(node.named("rdma.inside_gbps")) for name, node in found.items()} == {"gpu01": 2, "gpu02": 2}
    both = {name: {each.device: each for each in node.named(BOTH_AT_ONCE)} for name, node in found.items()}
    assert [(each["mlx5_0"].best, each["mlx5_1"].best) for each in both.values()] == [(391.0, 161.0)] * 2
    assert both["gpu01"]["mlx5_0"].conditions["size_bytes"] == str(rdma_pair.BOTH_BYTES)
    assert [len(node.of(WRITE)) for node in found.values()] == [2, 2]
    assert {run.notes.peer_best_way for node in found.values() for run in node.runs} == {None}


def of_one_rail(ran):
    return Attempt((ran,), rails=("mlx5_0",), partners=1)


def test_a_run_that_went_one_way_is_no_number_of_both(tmp_path):
    one = link("ib_write_bw", "mlx5_0", "gpu02", 391.5)
    ran = replace(one, what="ib_write_bw -b", argv=(*one.argv, "-b"))
    (run,) = parse([of_one_rail(ran)]).of(BOTH_AT_ONCE)
    assert run.trouble is not None
    assert run.trouble.said == "not believed: it transferred in one direction, not in both at once as requested"
    both = replace(ran, stdout=ran.stdout.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW"))
    assert parse([of_one_rail(both)]).of(BOTH_AT_ONCE)[0].value == 391.5


def test_gpu_memory_is_measured_where_the_build_can(made):
    fleet = made(cuda=True, rails=1, durations=another_length(rounds=1))
    found = measured(fleet.device("gpu01", "mlx5_0", gpu_gbps=180.0).device("gpu02", "mlx5_0", gpu_gbps=182.0))
    assert value(found["gpu02"], "rdma.gpu_write_gbps") == 180.0
    assert value(found["gpu02"], WRITE) == 195.5


def test_suspects_meet_only_nodes_that_passed(made):
    fleet = made(names=("a", "b", "c", "d"), rails=1).device("a", "mlx5_0", gbps=100.0)
    targets, pool = fleet.targets(), Crew()
    runs = rdma.again(targets, pool, {"a": (), "b": ()})
    assert set(runs) == {"a", "b"}
    pairs = {pair for asked in pool.asked[1:] for pair in asked}
    assert pairs == {"a - c", "b - d", "a - d", "b - c"}
    found = {name: parse([each]) for name, each in runs.items()}
    assert (value(found["a"], WRITE), value(found["b"], WRITE)) == (100.0, 195.5)
    assert all(run.notes.peer_passed for run in found["a"].runs)


def test_where_nobody_passed_a_partner_that_was_slow_with_others_is_told_as_one(made):
    fleet = made(names=("a", "b", "c", "d"), rails=1)
    for name in ("a", "b", "c"):
        fleet.device(name, "mlx5_0", gbps=100.0)
    targets = fleet.targets()
    found = parse([rdma.again(targets, Crew(), dict.fromkeys(fleet.names, ()))["d"]])
    assert {(run.notes.peer_best, run.notes.peer_passed) for run in found.of(WRITE)} == {(100.0, False)}
    assert blamed(found, WRITE, "mlx5_0", Limit(180.0, "Gb/s", "test")).fault is Fault.UNPROVEN


def test_a_cancelled_run_starts_nothing_new(made):
    fleet, pool = made(rails=1), Crew()
    targets = fleet.targets()
    pool.cancelled = True
    rdma.measure(targets, pool)
    assert pool.asked == [["gpu01", "gpu02"]]


def test_a_roce_rail_without_a_gid_is_left_out_and_named(made):
    fleet = made(rails=2)
    fleet.machines["gpu01"].set_port("mlx5_1", 1, "gid_types.3", "IB/RoCE v1")
    target = fleet.targets()[0]
    rdma_node = rdma.prepare(target)
    assert [rail.name for rail in rdma_node.rails] == ["mlx5_0"]
    assert rdma_node.missing["mlx5_1"].reason == "mlx5_1: no RoCE v2 GID with an IP address that others can reach"


def test_gids_that_the_probe_left_out_are_read_from_the_node():
    written = (
        "mlx5_0/ports/1/gids/40:0000:0000:0000:0000:0000:ffff:0a1e:0002\n"
        "mlx5_0/ports/1/gids/41:0000:0000:0000:0000:0000:ffff:0a1e:0002\n"
        "mlx5_0/ports/1/gid_attrs/types/40:IB/RoCE v1\n"
        "mlx5_0/ports/1/gid_attrs/types/41:RoCE v2\n"
        "something else\n"
    )
    assert rdma_rails.gid_index(rdma_rails.parse_gids(written)["mlx5_0", 1]) == 41
    assert rdma_rails.gid_index({1: ("fe80:0000:0000:0000:b8ce:f603:00ab:cdef", "RoCE v2")}) is None


def test_gids_are_found_below_sys_as_the_kernel_writes_them(tmp_path):
    port = tmp_path / "mlx5_2/ports/1"
    for place, text in (("gids/3", "0000:0000:0000:0000:0000:ffff:0a1e:0002"), ("gid_attrs/types/3", "RoCE v2")):
        (port / place).parent.mkdir(parents=True, exist_ok=True)
        (port / place).write_text(text + "\n")
    (port / "gids/4").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    command = rdma_rails.READ_GIDS.replace("/sys/class/infiniband", str(tmp_path))
    written = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False).stdout
    assert rdma_rails.parse_gids(written) == {
        ("mlx5_2", 1): {3: ("0000:0000:0000:0000:0000:ffff:0a1e:0002", "RoCE v2")}
    }


def test_each_rail_has_the_gpu_that_is_nearest_on_pcie():
    facts = facts_of(Machine.hgx_h100())
    found = rdma_rails.nearest_gpus(facts, rdma_rails.rails_in_service(Node("gpu01"), facts))
    assert sorted(place for place, _ in found.values()) == list(range(8))
    for name, (place, address) in found.items():
        assert address == facts.pci.gpus[place].address
        assert name.startswith("mlx5_")


def test_nodes_of_different_fabrics_are_not_paired(made):
    fleet = made(names=("a", "b", "c"), rails=1, durations=another_length(rounds=1))
    fleet.machines["c"] = Machine.hgx_h100("c")
    pool = Crew()
    found = measured(fleet, pool)
    assert pool.asked[1:3] == [["a - b"], ["a - b"]]
    assert found["c"].partners == 0


def test_a_program_that_ignores_sigterm_is_ended_and_the_others_say_theirs(made):
    (target,) = made(names=("gpu01",)).targets()
    word = f"9{os.getpid()}77"
    stubborn = ("sh", "-c", f"echo on; trap '' TERM; sleep {word}; sleep {word}")
    programs = [Program(stubborn), Program(("echo", "hello")), Program(("nothing-here",))]
    stubborn, quick, missing = perftest_runner.run_at_once(target, "test", programs, timeout_s=5)
    assert (stubborn.stdout, stubborn.timed_out, stubborn.exit_code) == ("on\n", True, None)
    assert (quick.stdout, quick.exit_code, quick.timed_out) == ("hello\n", 0, False)
    assert (missing.exit_code, missing.stderr) == (127, "nothing-here: not found\n")
    assert wait_until(lambda: not running(word))


def test_output_without_an_end_is_cut(made):
    (target,) = made(names=("gpu01",)).targets()
    (endless,) = perftest_runner.run_at_once(target, "test", [Program(("yes",))], timeout_s=5)
    assert endless.truncated
    assert endless.timed_out
    assert len(endless.stdout) <= perftest_runner.MAX_KEPT // 2


def test_a_port_that_somebody_else_listens_on_is_not_taken_for_ours(made):
    import socket

    (target, other) = made(rails=1).targets()
    with contextlib.closing(socket.create_server(("0.0.0.0", target.node.expected["rdma_port"]))):  # noqa: S104
        node_pair = rdma.NodePair(rdma.prepare(target), rdma.prepare(other), "1")
        (both,) = rdma_pair.runs_of(node_pair, [rdma.WRITE])
    client = next(ran for _, ran in both if ran.link.program is Role.CLIENT)
    assert "the server on gpu01 does not listen on port" in client.cannot
    assert "Couldn't listen to port" in client.cannot


def of_a_row(numbers, stderr=""):
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    ran = link("ib_write_bw", "mlx5_0", "b", text=f"{head} 65536      1409           {numbers}\n", stderr=stderr)
    return of_one_rail(ran)


@pytest.mark.parametrize("average", ["-5.13", "-0.000001", "0.00"])
def test_an_average_that_no_rail_can_have_is_no_value_of_a_slow_rail(average):
    """A counter of perftest wraps in runs of hours, and its average is below zero."""
    (run,) = parse([of_a_row(f"0.00               {average}              -0.009786")]).runs
    assert (run.value, run.trouble and run.trouble.kind) == (None, "number")


def test_a_row_of_zeros_names_perftests_failed_clock_and_is_looked_at_again():
    attempt = of_a_row("0.000000  0.000000  0.000000", "Correlation coefficient r^2: 0.89274 < 0.9\n")
    (run,) = parse([attempt]).runs
    assert run.trouble is not None
    assert "its measurement of the CPU clock failed (Correlation coefficient r^2: 0.89274 < 0.9)" in run.trouble.said
    assert doubtful([attempt])
