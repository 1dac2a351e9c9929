"""64 nodes, half of them hostile in every way that we know: the run ends in time, and says of each what it is."""

import json
import re
import signal
from typing import Any, NamedTuple

import pytest
from support.hostile.fleet import HEALTHY, HostileFleet, HostileNode
from support.hostile.kinds import HOSTILE
from support.hostile.measured import Measured, run

from lab.processes import in_session, tell, wait_until
from lab.run import words_of
from nodegate.records.finding import Record
from nodegate.records.results import read
from nodegate.run.node_facts import FACTS_TIMEOUT_S
from nodegate.transport.call import END_S
from nodegate.transport.turns import LIMIT_TIMES

NODES = 64
CONNECT_S = 3.0  # ansible_ssh_timeout
STAGE_S = LIMIT_TIMES * CONNECT_S + FACTS_TIMEOUT_S + END_S
MOST_MIB = 250.0  # a healthy fleet of this size takes about 130


class Ran(NamedTuple):
    """What the run left behind."""

    nodes: list[HostileNode]
    said: str
    cost: Measured
    report: dict[str, Any]
    records: dict[str, list[Record]]
    evidence: dict[str, dict[str, Any]]
    processes: list[int]  # of its own that are left
    on_nodes: list[int]  # of its connections
    open_connections: int


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with HostileFleet(folder, NODES) as fleet:
        (folder / "hosts.yaml").write_text(fleet.inventory(CONNECT_S))
        cost = run(folder, ["--profile=bootcheck", "-q", "--tb=no"])
        tell(fleet.descendants(), signal.SIGCONT)  # those of the node that froze
        wait_until(lambda: not fleet.descendants())
        records: dict[str, list[Record]] = {}
        for record in read(cost.folder):
            records.setdefault(record.node, []).append(record)
        yield Ran(
            fleet.nodes,
            cost.said,
            cost,
            cost.report(),
            records,
            cost.facts(),
            in_session(cost.pid),
            fleet.descendants(),
            sum(server.left() for server in fleet.servers),
        )


def verdicts(ran, kind):
    names = {node.name for node in ran.nodes if node.kind is kind}
    return {node["verdict"] for node in ran.report["nodes"] if node["node"] in names}


@pytest.mark.parametrize("kind", HOSTILE, ids=lambda kind: kind.name)
def test_each_hostile_node_has_its_verdict_and_its_cause(ran, kind):
    assert verdicts(ran, kind) == {kind.verdict}, ran.said
    for name in (node.name for node in ran.nodes if node.kind is kind):
        wrong = [words_of(record) for record in ran.records[name] if record.verdict.value in ("fail", "error")]
        assert any(re.search(kind.said, words) for words in wrong), wrong[:3]
        assert [cause for cause in ran.report["causes"] if name in cause["nodes"] and cause["action"]]


def test_healthy_nodes_are_accepted(ran):
    assert verdicts(ran, HEALTHY) == {"accepted"}, ran.said
    assert sum(node.kind is HEALTHY for node in ran.nodes) >= NODES // 2


def test_no_node_takes_longer_than_its_limits(ran):
    assert len(ran.evidence) == NODES
    took = {name: evidence["duration_s"] for name, evidence in ran.evidence.items()}
    assert max(took.values()) <= 1.1 * STAGE_S, took
    begun = [evidence["started_epoch_s"] for evidence in ran.evidence.values()]
    ended = [evidence["started_epoch_s"] + took[name] for name, evidence in ran.evidence.items()]
    assert max(ended) - min(begun) <= 1.1 * STAGE_S


def test_no_healthy_node_waits_for_a_hostile_one(ran):
    healthy = {node.name for node in ran.nodes if node.kind is HEALTHY}
    ended = {name: each["started_epoch_s"] + each["duration_s"] for name, each in ran.evidence.items()}
    assert max(ended[name] for name in healthy) < max(ended.values()) - END_S / 2


def test_what_hostile_nodes_send_is_not_kept(ran):
    assert ran.cost.memory_mib < MOST_MIB
    sizes = {name: len(json.dumps(evidence)) for name, evidence in ran.evidence.items()}
    assert max(sizes.values()) < 500_000, sizes
    assert len(ran.said) < 20_000


def test_no_thread_is_left_behind_a_finished_node(ran):
    # 64 at once; each gives its place to another one when it keeps us waiting; a connection has a thread of its own.
    assert ran.cost.threads < 3 * NODES + 40


def test_nothing_is_left_behind(ran):
    assert (ran.processes, ran.on_nodes, ran.open_connections) == ([], [], 0)
