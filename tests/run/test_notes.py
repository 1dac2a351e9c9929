"""What is noted with a run: how little it allows to find, and whose demands file is not as this run asks."""

import json
import re
from random import Random

import pytest
from fleet.machine import Machine
from support.measured import baseline, metric
from support.recorded import run_pytest, write_fleet

from nodegate.demands.of_site import SiteDemands
from nodegate.inventory import inventory
from nodegate.metric import Metric
from nodegate.node import Node
from nodegate.numbers.peers import Peers
from nodegate.run.contexts import NodeSummary
from nodegate.run.notes import fleet_allows, stale_demands
from nodegate.unknown import Unknown, Why


def said(nodes, noise, **changes):
    drawn = Random(5)  # noqa: S311
    measured = {f"gpu{at:03}": ("hgx-h100-8", [metric(480 * drawn.gauss(1, noise), **changes)]) for at in range(nodes)}
    return said_of(measured)


def said_of(measured):
    platforms = {node: platform for node, (platform, _) in measured.items()}
    return "\n".join(
        fleet_allows(platforms, lambda node: measured[node][1], Peers.of(measured), lambda _node: baseline())
    )


def test_with_fewer_than_eight_nodes_a_slow_one_is_not_found_by_comparison():
    assert said(2, 0.005) == "comparing nodes finds no slow one: hgx-h100-8 (2 nodes, 8 are needed)"
    few = "comparing so few nodes finds only one that is far behind: hgx-h100-8 (4 nodes, 8 are needed)"
    assert said(4, 0.005) == few


def test_where_the_noise_hides_what_is_sought_it_is_said_how_much_less_is_found():
    told = said(64, 0.03)
    assert told.startswith("comparing nodes finds no slow one: hgx-h100-8 in all_reduce (below 1")


@pytest.mark.parametrize(
    ("nodes", "noise", "unit", "words"),
    [
        (10, 0.2, "GB/s", "comparing nodes finds no slow one: hgx-h100-8 in all_reduce"),
        (64, 0.005, "GB/s", ""),
        (4, 0.005, "°C", ""),  # heat is not compared
    ],
)
def test_it_is_said_only_where_it_is_so(nodes, noise, unit, words):
    assert said(nodes, noise, unit=unit) == words


def test_where_nothing_was_measured_or_the_platform_is_unknown_nothing_is_said():
    for platform, metrics in (("", [metric(480)]), ("hgx-h100-8", list[Metric]())):
        measured = {"gpu001": (platform, metrics)}
        assert said_of(measured) == ""


# Which nodes have a demands file that asks for something else than the run does


NODES = {name: Node(name, expected={"ports": [29500]}) for name in ("gpu1", "gpu2", "gpu3")}
SITE = SiteDemands()
MISSING, DAMAGED = Unknown(Why.MISSING, "no such file"), Unknown(Why.FAILED, "it has no hash")


def told(*found):
    summaries = {name: NodeSummary("", {}, {}, "", demands=each) for name, each in zip(NODES, found, strict=False)}
    return [re.sub(r": write .*", "", line) for line in stale_demands(NODES, summaries, SITE)]


def test_who_is_stale_is_named():
    right = [SITE.of(node).sha256 for node in NODES.values()]
    file = "/etc/nodegate/demands.yaml of"
    assert told(*right) == []
    assert told(MISSING, MISSING, MISSING) == []
    assert told("", "", "") == []
    assert told(right[0], MISSING, right[2]) == [f"{file} gpu2 is missing"]
    assert told(right[0], right[2], right[1]) == [f"{file} gpu[2-3] is not what this run asks"]
    found = [f"{file} gpu2 could not be read", f"{file} gpu3 is not what this run asks"]
    assert told(right[0], DAMAGED, "0" * 64) == found


@pytest.mark.parametrize("options", [[], ["--policy", "strict-h100"]], ids=["as written", "by another policy"])
def test_the_nightly_says_so_at_its_end(tmp_path, options):
    hosts = write_fleet(tmp_path, [Machine.hgx_h100(name) for name in ("gpu1", "gpu2")])
    for node in inventory.read([str(hosts)]).nodes:
        facts = tmp_path / "recordings" / node.name / "facts.json"
        document = json.loads(facts.read_text())
        written = SITE.of(node, made="2026-11-25T18:00:00Z").text
        document["sections"]["environment"]["data"]["demands"] = written[:400].replace("gpu2", "gpu9")
        facts.write_text(json.dumps(document))
    outcome = run_pytest(tmp_path, ["--inventory", "hosts.yaml", "--profile", "nightly", "--passive", *options])
    notes = json.loads((outcome.folder / "report.json").read_text())["run"]["notes"]
    stale = [note for note in notes if "demands" in note]
    assert len(stale) == bool(options)
    assert all("gpu[1-2] is not what this run asks" in note for note in stale)
    assert ("demands" in outcome.stdout) is bool(options)
