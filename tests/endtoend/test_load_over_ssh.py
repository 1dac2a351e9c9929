"""The campaign under load over real sshds: each planted fault is found by name, and nothing of ours stays on a node."""

import json
import re
import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
from support.load_fleet import LoadFleet, LoadRun
from support.recorded import PytestOutcome

from lab.processes import running, wait_until
from lab.run import words_of
from nodegate.claims.verdict import node_verdict

NODES, WITH_RDMA = 24, 16
EVERYONE = {f"gpu{number}" for number in range(1, NODES + 1)}


class Fault(NamedTuple):
    """Something that is wrong with a node, the check that finds it, its verdict, and words that name the part."""

    node: str
    plant: Callable[[LoadFleet], object]
    check: str
    verdict: str
    words: tuple[str, ...]
    rejects: bool = True  # or leaves the node incomplete


FAULTS = {
    "slow adapter": Fault(
        "gpu7",
        lambda fleet: fleet["gpu7"].adapter("mlx5_1", gbps=120.0),
        "rdma_bandwidth.write",
        "fail",
        ("RDMA write bandwidth 120 Gb/s", "below the median 391.5 Gb/s of 14 other nodes"),
    ),
    "slow GPU": Fault(
        "gpu12",
        lambda fleet: fleet["gpu12"].gpu(1, "cuda.product_s", 7e-7),
        "burn.throughput",
        "fail",
        (": bf16 rate 383 TFLOPS", "below the median 506.5 TFLOPS of 23 other nodes"),
    ),
    "all_reduce that hangs and ignores SIGTERM": Fault(
        "gpu22",
        lambda fleet: fleet["gpu22"].nccl(faults={"all_reduce": "hang"}),
        "nccl.hang",
        "fail",
        ("all_reduce: hung: did not end within 20 s",),
    ),
    "program that ends half-way": Fault(
        "gpu21",
        lambda fleet: fleet["gpu21"].nccl(faults={"all_gather": "crash"}),
        "nccl.complete",
        "error",
        ("all_gather: could not read result", "exit code 139"),
        rejects=False,
    ),
    "missing tool": Fault(
        "gpu10",
        lambda fleet: fleet["gpu10"].lacks("ib_read_bw"),
        "rdma_bandwidth.complete",
        "error",
        ("no ib_read_bw was found", "install the package perftest"),
        rejects=False,
    ),
}
DEAD_SERVER = "gpu5"  # its adapter is well as a client: the node keeps a warning


class Run(NamedTuple):
    """The whole fleet's run."""

    fleet: LoadFleet
    outcome: PytestOutcome
    logins: int
    left: bool

    def words(self, node, check):
        """What a check says of a node, its verdict first."""
        record = next(each for each in self.outcome.records if (each.node, each.check) == (node, check))
        return f"{record.verdict.value}: {words_of(record)}"

    def attempts(self, measurement):
        files = (self.outcome.folder / "evidence").glob(f"*/{measurement}.json")
        found = {file.parent.name: json.loads(file.read_text())["document"] for file in files}
        return {name: len(document["attempts"]) for name, document in found.items()}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    with LoadFleet(folder / "fleet", NODES, with_rdma=WITH_RDMA) as fleet:
        for fault in FAULTS.values():
            fault.plant(fleet)
        fleet[DEAD_SERVER].adapter("mlx5_0", fault="deaf")
        # 24 nodes on one machine: what each may take is far more than a node takes that has one for itself
        outcome = fleet.run(folder / "run", "-p", "lab.slow_probe", "--hang-after", "20s")
        yield Run(fleet, outcome, fleet.connections(), left=not fleet.is_clear())


def node_verdicts(outcome):
    """The verdict of each node by what was asked of it: its claims are not all, and perftest has no CUDA here."""
    report = json.loads((outcome.folder / "report.json").read_text())
    unreachable = {node["node"]: node["verdict"] for node in report["nodes"] if node["verdict"] == "unreachable"}
    names = dict.fromkeys(node["node"] for node in report["nodes"])
    records = {name: [each for each in outcome.records if each.node == name] for name in names}
    return {name: unreachable.get(name) or node_verdict(records[name]).value for name in names}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_with_its_node_and_part(campaign, name):
    fault = FAULTS[name]
    said = campaign.words(fault.node, fault.check)
    assert said.startswith(fault.verdict), campaign.outcome.stdout[-3000:]
    for words in fault.words:
        assert words in said
    assert node_verdicts(campaign.outcome)[fault.node] == ("rejected" if fault.rejects else "incomplete")


def test_a_dead_server_is_told_of_its_own_node(campaign):
    said = campaign.words(DEAD_SERVER, "rdma_bandwidth.complete")
    assert said.startswith("warn: mlx5_0 (0000:14:00.0): ")
    assert f"the server on {DEAD_SERVER} does not listen" in said
    assert "Couldn't allocate MR" in said


def test_every_other_node_is_accepted(campaign):
    planted = {fault.node for fault in FAULTS.values()}
    odd = {name: verdict for name, verdict in node_verdicts(campaign.outcome).items() if not verdict.startswith("acc")}
    assert odd.keys() == planted
    assert len(node_verdicts(campaign.outcome)) == NODES


def test_the_partners_of_the_slow_adapter_are_not_blamed(campaign):
    document = json.loads((campaign.outcome.folder / "evidence/gpu7/rdma_bandwidth.json").read_text())["document"]
    partners = {ran["plan"]["link"]["peer"] for ran in document["attempts"][0]["runs"]}
    assert len(partners) == 3
    said = [record for record in campaign.outcome.records if record.check.startswith("rdma_bandwidth.")]
    assert {record.verdict.value for record in said if record.node in partners - {DEAD_SERVER}} <= {"pass", "skip"}


@pytest.mark.parametrize(
    ("measurement", "again"), [("burn", EVERYONE), ("nccl", EVERYONE), ("rdma_bandwidth", {"gpu7"})]
)
def test_suspects_are_measured_three_times_and_where_each_measures_alone_so_are_all_others(
    campaign, measurement, again
):
    """The slow GPU makes one suspect of the burn; a fleet of 24 is compared by equally many looks."""
    attempts = campaign.attempts(measurement)
    assert {name for name, count in attempts.items() if count > 1} == again
    assert {attempts[name] for name in again} <= {3}
    assert len(attempts) == (WITH_RDMA if measurement == "rdma_bandwidth" else NODES)


def test_a_node_costs_one_connection_and_keeps_nothing(campaign):
    assert campaign.logins == NODES
    assert not campaign.left


def test_progress_names_the_stage_what_is_done_and_the_time_left(campaign):
    lines = campaign.outcome.stderr.splitlines()
    form = re.compile(
        r"(facts|gpu: burn|node: nccl|links: rdma_bandwidth|facts again|leaving the nodes)"
        r"(, \d+ nodes once more)?: \d+ of \d+ (nodes|pairs)"
        r"(, \d+ could not be measured)?, \d+ s( of about \d+ s)?"
        r"|judging: \d+ of \d+ (nodes|checks), \d+ s(, about \d+ s left)?"
    )
    assert lines
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert any(line.startswith("node: nccl: ") for line in lines)  # there one hangs


# How a run ends before its time


def hold_facts(fleet):
    for node in fleet.nodes:
        node.scenario.hang(0, "nvmlDeviceGetUUID", 300).write(node.folder / "scenario.conf")


def hold_burn(fleet):
    for node in fleet.nodes:
        node.gpu(None, "cuda.hang.cuStreamSynchronize", 1)


def hold_nccl(fleet):
    for node in fleet.nodes:
        node.nccl(faults={"all_reduce": "hang"})


def hold_rdma(fleet):
    for node in fleet.nodes:
        node.adapter("mlx5_0", fault="hang")


def facts_are_asked_for(fleet, _run):
    return all(node.is_locked for node in fleet.nodes) and len(fleet.left()) >= 6 * len(fleet.nodes)


def gpus_burn(fleet, run):
    return len(run.evidence("facts")) == len(fleet.nodes) and len(fleet.left()) >= 7 * len(fleet.nodes)


def collectives_run(fleet, _run):
    return all(running(str(node.tools / "all_reduce_perf")) for node in fleet.nodes)


def adapters_are_loaded(fleet, _run):
    return all(running(str(node.tools / "ib_write_lat")) for node in fleet.nodes)


def facts_are_asked_for_again(fleet, run):
    """The collectives hang for a moment; meanwhile NVML is made to hang for what follows."""
    if collectives_run(fleet, run):
        hold_facts(fleet)
    return len(run.evidence("nccl")) == len(fleet.nodes) and len(fleet.left()) >= 6 * len(fleet.nodes)


class Stage(NamedTuple):
    """How a stage is made to last, when it is in the middle, and what is asked of the nodes until then."""

    hold: Callable[[LoadFleet], None]
    goes_on: Callable[[LoadFleet, LoadRun], bool]
    asked: tuple[str, ...]


STAGES: Mapping[str, Stage] = {
    "facts": Stage(hold_facts, facts_are_asked_for, ("node", "gpu", "burn")),
    "gpu": Stage(hold_burn, gpus_burn, ("node", "burn", "counters")),
    "node": Stage(hold_nccl, collectives_run, ("node", "nccl", "counters")),
    "links": Stage(hold_rdma, adapters_are_loaded, ("node", "rdma_bandwidth", "counters")),
    "facts again": Stage(hold_nccl, facts_are_asked_for_again, ("node", "nccl", "counters")),
}


@pytest.fixture
def few(tmp_path):
    with LoadFleet(tmp_path / "fleet", 2) as fleet:
        yield fleet


def in_the_middle(fleet, folder, name):
    """A run that stands in a stage."""
    stage = STAGES[name]
    stage.hold(fleet)
    limit = ("--hang-after", "3s") if name == "facts again" else ("--hang-after", "60s")
    run = fleet.start(folder, *limit, asked=stage.asked)
    assert wait_until(lambda: stage.goes_on(fleet, run), 180), f"stage {name} was not reached"
    return run


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_in_a_stage_leaves_a_report_and_nothing_on_the_nodes(few, tmp_path, stage):
    run = in_the_middle(few, tmp_path / "run", stage)
    run.process.send_signal(signal.SIGINT)
    outcome = run.outcome()
    assert outcome.exit_code == 2, outcome.stdout[-2000:]
    assert wait_until(few.is_clear), few.left()
    report = json.loads((outcome.folder / "report.json").read_text())
    assert report["run"]["interrupted"] is True
    assert {node["verdict"] for node in report["nodes"]} == {"incomplete"}  # what was judged so far was good


@pytest.mark.parametrize("stage", ["gpu", "node"])  # links: below, with --resume
def test_kill_9_in_a_stage_leaves_nothing_on_the_nodes(few, tmp_path, stage):
    run = in_the_middle(few, tmp_path / "run", stage)
    run.process.kill()
    run.outcome()
    assert wait_until(few.is_clear), few.left()


@pytest.mark.parametrize("stage", ["gpu", "links", "facts again"])
def test_lost_connections_end_the_load_and_the_run(few, tmp_path, stage):
    run = in_the_middle(few, tmp_path / "run", stage)
    few.cut()
    assert wait_until(few.is_clear), few.left()
    outcome = run.outcome()
    assert outcome.exit_code == 1, outcome.stdout[-2000:]
    assert "accepted" not in node_verdicts(outcome).values()


def test_resume_after_lost_connections_measures_what_broke_off(few, tmp_path):
    run = in_the_middle(few, tmp_path / "run", "links")
    few.cut()
    assert run.outcome().exit_code == 1
    broken = run.evidence("rdma_bandwidth")
    assert wait_until(few.is_clear), few.left()
    for node in few.nodes:
        node.adapter("mlx5_0", fault="")
    resumed = few.start(tmp_path / "run", "--resume", "reports/latest", asked=STAGES["links"].asked)
    outcome = resumed.outcome()
    assert resumed.evidence("rdma_bandwidth").keys() == broken.keys() == {"gpu1", "gpu2"}
    assert resumed.evidence("rdma_bandwidth") != broken
    assert set(node_verdicts(outcome).values()) == {"accepted"}


def test_resume_after_kill_9_measures_only_what_is_missing(few, tmp_path):
    hold_rdma(few)
    run = few.start(tmp_path / "run")
    assert wait_until(lambda: adapters_are_loaded(few, run), 120)
    run.process.kill()
    run.outcome()
    before = {name: run.evidence(name) for name in ("facts", "burn", "nccl", "rdma_bandwidth")}
    assert before.pop("rdma_bandwidth") == {}
    assert wait_until(few.is_clear), few.left()
    for node in few.nodes:
        node.adapter("mlx5_0", fault="")
    resumed = few.start(tmp_path / "run", "--resume", "reports/latest")
    outcome = resumed.outcome()
    assert {name: resumed.evidence(name) for name in before} == before
    assert resumed.evidence("rdma_bandwidth").keys() == {"gpu1", "gpu2"}
    assert set(node_verdicts(outcome).values()) == {"accepted"}


def test_workers_of_xdist_come_to_the_same_verdicts(tmp_path):
    with LoadFleet(tmp_path / "fleet", 4) as fleet:  # of two nodes neither could be told from its only partner
        fleet["gpu2"].adapter("mlx5_1", gbps=120.0)
        fleet["gpu3"].nccl(faults={"all_gather": "crash"})
        alone, shared = fleet.run(tmp_path / "alone"), fleet.run(tmp_path / "shared", "-n", "2")
    assert node_verdicts(alone) == {"gpu1": "accepted", "gpu2": "rejected", "gpu3": "incomplete", "gpu4": "accepted"}
    assert node_verdicts(shared) == node_verdicts(alone)
    assert verdicts(shared) == verdicts(alone)
    assert shared.exit_code == alone.exit_code == 1


def verdicts(outcome):
    return {(record.node, record.check): record.verdict.value for record in outcome.records}
