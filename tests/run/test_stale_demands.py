"""A run says which nodes have a demands file that asks for something else than it does."""

import json
import re
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

from nodegate.demands.of_site import SiteDemands
from nodegate.inventory import inventory
from nodegate.node import Node
from nodegate.run.contexts import NodeSummary
from nodegate.run.notes import stale_demands
from nodegate.unknown import Known, Unknown, Why

NODES = {name: Node(name, expected={"ports": [29500]}) for name in ("gpu1", "gpu2", "gpu3")}
SITE = SiteDemands()
MISSING, DAMAGED = Unknown(Why.MISSING, "no such file"), Unknown(Why.FAILED, "it has no hash")


def told(*found: Known[str]) -> list[str]:
    summaries = {name: NodeSummary("", {}, {}, "", demands=each) for name, each in zip(NODES, found, strict=False)}
    return [re.sub(r": write .*", "", line) for line in stale_demands(NODES, summaries, SITE)]


def test_who_is_stale_is_named() -> None:
    right = [SITE.of(node).sha256 for node in NODES.values()]
    file = "/etc/nodegate/demands.yaml of"
    assert told(*right) == []
    assert told(MISSING, MISSING, MISSING) == []
    assert told("", "", "") == []
    assert told(right[0], MISSING, right[2]) == [f"{file} gpu2 is missing"]
    assert told(right[0], right[2], right[1]) == [f"{file} gpu[2-3] is not what this run asks"]
    assert told(right[0], DAMAGED, "0" * 64) == [
        f"{file} gpu2 could not be read",
        f"{file} gpu3 is not what this run asks",
    ]


@pytest.mark.parametrize("options", [[], ["--policy", "strict-h100"]], ids=["as written", "by another policy"])
def test_the_nightly_says_so_at_its_end(tmp_path: Path, options: list[str]) -> None:
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
