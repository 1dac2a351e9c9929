"""A run proves what it ran and no more; what is not proven is told, and counts unless somebody signs for it."""

import datetime as dt
import json
from pathlib import Path

import pytest
from fleet.load import burn
from fleet.machine import Machine, facts_of
from support.recorded import run_pytest, write_fleet

from nodegate.baseline.baseline import Baselines
from nodegate.commands.doctor import complaints_about_claims, lines
from nodegate.errors import UsageError
from nodegate.inventory import inventory
from nodegate.judge.waivers import Waivers, signed_gaps
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.judging import Judging

REFUSED = 4
GAP = "- {{node: gpu01, claim: {claim}, reason: no fabric yet, owner: site, expires: 2099-01-01}}\n"


def run(folder, *options):
    """A run over the nodes of the folder, gpu01 where it has none yet, and what its report says of each."""
    if not (folder / "hosts.yaml").exists():
        write_fleet(folder, [Machine.hgx_h100("gpu01", 1)])
    outcome = run_pytest(folder, ["--inventory", "hosts.yaml", "-p", "no:cacheprovider", *options])
    nodes = json.loads((outcome.folder / "report.json").read_text())["nodes"] if outcome.exit_code != REFUSED else []
    return outcome, {node["node"]: node for node in nodes}


def not_proven(node):
    return {each["claim"]: each["why"] for each in node["claims"] if each["state"] == "not-proven"}


def test_a_bootcheck_proves_all_that_it_claims(tmp_path):
    outcome, nodes = run(tmp_path, "--profile", "bootcheck")
    assert (outcome.exit_code, nodes["gpu01"]["verdict"], not_proven(nodes["gpu01"])) == (0, "accepted", {})


@pytest.mark.parametrize("part", [["-k", "gpu and count"], ["--passive"]])
def test_a_part_of_a_run_accepts_nothing_and_fails_nothing(tmp_path, part):
    outcome, nodes = run(tmp_path, *part)
    assert (outcome.exit_code, nodes["gpu01"]["verdict"]) == (0, "incomplete")
    left = not_proven(nodes["gpu01"])
    assert set(left.values()) == {"not asked for: this run covered only part of its profile"}
    assert "run the whole profile" in outcome.stdout


def test_a_run_that_ended_early_says_so_of_what_it_did_not_judge(tmp_path):
    machine = Machine.hgx_h100("gpu01", 1)
    machine.set_gpu(3, "memory_total_bytes", 40 << 30)
    write_fleet(tmp_path, [machine])
    outcome, nodes = run(tmp_path, "-x")
    assert (outcome.exit_code, nodes["gpu01"]["verdict"]) == (1, "rejected")
    assert set(not_proven(nodes["gpu01"]).values()) == {"the run ended before it was judged"}
    assert not any(each["left_out"] for each in nodes["gpu01"]["claims"])


def test_a_delivery_of_a_node_alone_is_accepted_only_where_the_site_signs_for_each_gap(tmp_path):
    outcome, nodes = run(tmp_path)
    left = list(not_proven(nodes["gpu01"]))
    assert (outcome.exit_code, nodes["gpu01"]["verdict"]) == (1, "incomplete")
    assert {"rails", "collectives_between_nodes"} <= set(left)
    assert not {"parts", "compute"} & set(left)
    assert "claims not proven on 1 node" in outcome.stdout
    assert "  not proven  gpu01  " in outcome.stdout
    for signed, code, verdict in ((left, 0, "accepted-with-gaps"), (left[1:], 1, "incomplete")):
        (tmp_path / "waivers.yaml").write_text("".join(GAP.format(claim=name) for name in signed))
        outcome, nodes = run(tmp_path, "--waivers", "waivers.yaml")
        assert (outcome.exit_code, nodes["gpu01"]["verdict"]) == (code, verdict)
        assert f"1 {verdict} of 1 node" in outcome.stdout


def test_a_gap_of_an_unknown_claim_is_refused_with_its_line(tmp_path):
    (tmp_path / "waivers.yaml").write_text(GAP.format(claim="rail"))
    outcome, _ = run(tmp_path, "--waivers", "waivers.yaml")
    assert outcome.exit_code == REFUSED
    assert "waivers.yaml:1: a waiver for the unknown claim 'rail' - did you mean rails" in outcome.stderr


# nodegate_gaps: a site signs in its inventory for claims that cannot be proven; what is half signed is refused


TODAY = dt.date(2026, 11, 23)
GOOD = {"reason": "ticket 4711", "owner": "lee", "expires": "2026-12-31"}
WRITTEN = json.dumps({"rails": GOOD})


def waivers_of(*nodes):
    return Waivers(signed_gaps(nodes), TODAY)


def cold(document):
    """Every GPU burns at half of its power."""
    for gpu in document["gpus"]:
        for window in burn.windows_under_load(gpu):
            window["power_w"] = [340, 350, 360]


def gap(expires="2099-01-01"):
    return GOOD | {"expires": expires}


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"rail": GOOD}, "nodegate_gaps: unknown claim 'rail'", "did you mean rails"),
        ({"rails": "ticket 4711"}, "nodegate_gaps: rails is not a mapping with reason, owner, expires", "for example"),
        ({"rails": GOOD | {"until": "2026"}}, "nodegate_gaps: rails: unknown word 'until'", "known: expires, owner"),
        ({"rails": {"reason": "x", "expires": "2026-12-31"}}, "nodegate_gaps: rails has no owner", "every gap"),
        ({"rails": {"owner": "lee", "expires": "2026-12-31"}}, "nodegate_gaps: rails has no reason", "every gap"),
        ({"rails": GOOD | {"expires": 20261231}}, "nodegate_gaps: rails has no expires", "every gap"),
        ({"rails": GOOD | {"expires": "soon"}}, "expires must be a day, not 'soon'", "write it as 2026-12-31"),
        (["rails"], "nodegate_gaps must map claims to who signs for them", "for example"),
        ("{rails", "nodegate_gaps must map claims to who signs for them", "for example"),
    ],
)
def test_what_is_half_signed_is_refused_with_its_line(given, message, hint):
    node = Node("gpu01", expected={"gaps": given}, origin="hosts.yaml:3", origins={"gaps": "group_vars/rack1.yaml:2"})
    with pytest.raises(UsageError) as said:
        signed_gaps([node])
    assert message in said.value.message
    assert hint in (said.value.hint or "")
    assert (said.value.file, said.value.line) == ("group_vars/rack1.yaml", 2)


def test_a_gap_that_many_nodes_share_is_kept_once():
    nodes = [Node(f"gpu{number:04}", expected={"gaps": {"rails": GOOD}}, origin="hosts.yaml:3") for number in range(99)]
    own = Node("other", expected={"gaps": {"rails": gap("2027-01-31")}}, origin="hosts.yaml:200")
    assert len(signed_gaps([*nodes, own])) == 2
    waivers = waivers_of(*nodes, own)
    assert waivers.signed("rails", "gpu0042") == "ticket 4711 (owner lee, expires 2026-12-31)"
    assert waivers.signed("rails", "other") == "ticket 4711 (owner lee, expires 2027-01-31)"
    assert waivers.signed("rails", "gpu0100") == waivers.signed("burned", "gpu0042") == ""


def test_a_day_that_is_past_counts_no_more_and_is_said():
    node = Node(
        "gpu01", expected={"gaps": {"rails": gap("2026-11-22"), "burned": gap("2026-11-23")}}, origin="h.yaml:3"
    )
    waivers = waivers_of(node)
    assert waivers.signed("rails", "gpu01") == ""
    assert waivers.signed("burned", "gpu01")
    assert waivers.run_out() == (
        "h.yaml:3: gpu01: rails was signed for until 2026-11-22 (owner lee), which has passed: it no longer applies",
    )


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("hosts.yaml", f"all:\n  hosts:\n    gpu01:\n      nodegate_gaps: {WRITTEN}\n", {}),
        ("hosts", f"[all]\ngpu01 nodegate_gaps='{WRITTEN}'\n", {}),
        ("hosts", f"[rack1]\ngpu01\n[rack1:vars]\nnodegate_gaps={WRITTEN}\n", {}),
        ("hosts", "[rack1]\ngpu01\n", {"group_vars/rack1.yaml": f"nodegate_gaps: {WRITTEN}\n"}),
        ("hosts", "gpu01\n", {"host_vars/gpu01.yaml": f"nodegate_gaps: {WRITTEN}\n"}),
    ],
    ids=["YAML", "INI", "INI group", "group_vars", "host_vars"],
)
def test_it_may_stand_wherever_a_variable_may(tmp_path, name, text, more):
    (tmp_path / name).write_text(text)
    for path, content in more.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(content)
    nodes = inventory.read([str(tmp_path / name)]).nodes
    (signed,) = signed_gaps(nodes)
    told = (signed.claim, signed.owner, signed.expires, signed.nodes)
    assert told == ("rails", "lee", dt.date(2026, 12, 31), frozenset({"gpu01"}))
    assert Path(signed.file).name == (Path(next(iter(more))).name if more else name)
    assert signed.line > 0


def test_a_signed_gap_is_accepted_as_one_and_kept_with_the_run(tmp_path):
    machines = [Machine.hgx_h100("gpu01", 1), Machine.hgx_h100("gpu02", 2)]
    for machine in machines:
        machine.under_load(burn.NAME, cold)
    hosts = write_fleet(tmp_path, machines)
    _, nodes = run(tmp_path)
    assert {(node["verdict"], *not_proven(node)) for node in nodes.values()} == {("incomplete", "burned")}
    signing = json.dumps({"burned": gap()})
    hosts.write_text(hosts.read_text().replace("    gpu02:\n", f"    gpu02:\n      nodegate_gaps: {signing}\n"))
    outcome, nodes = run(tmp_path)
    assert [nodes[name]["verdict"] for name in ("gpu01", "gpu02")] == ["incomplete", "accepted-with-gaps"]
    signed = {each["signed"] for each in nodes["gpu02"]["claims"] if each["claim"] == "burned"}
    assert signed == {"ticket 4711 (owner lee, expires 2099-01-01)"}
    again = run_pytest(tmp_path, ["--replay", str(outcome.folder.resolve()), "-p", "no:cacheprovider"])
    replayed = json.loads((again.folder / "report.json").read_text())["nodes"]
    assert {node["node"]: node["verdict"] for node in replayed}["gpu02"] == "accepted-with-gaps"


def test_a_gap_that_ran_out_is_told_and_a_half_signed_one_ends_the_run(tmp_path):
    hosts = write_fleet(tmp_path, [Machine.hgx_h100("gpu01", 1)])
    plain = hosts.read_text()
    hosts.write_text(f"{plain}      nodegate_gaps: {json.dumps({'rails': gap('2020-01-01')})}\n")
    outcome, nodes = run(tmp_path, "-k", "node")
    assert nodes["gpu01"]["verdict"] == "incomplete"
    assert "gpu01: rails was signed for until 2020-01-01 (owner lee), which has passed" in outcome.stdout
    hosts.write_text(f"{plain}      nodegate_gaps: {{rails: {{reason: r, expires: 2099-01-01}}}}\n")
    outcome, _ = run(tmp_path)
    assert outcome.exit_code == REFUSED
    assert "hosts.yaml:7: gpu01: nodegate_gaps: rails has no owner" in outcome.stderr


def test_doctor_shows_what_is_signed_and_what_is_not():
    machine = Machine.hgx_h100("gpu01", 1)
    node = Node("gpu01", expected={"gaps": {"rails": GOOD, "burned": GOOD}}, origin="hosts.yaml:3")
    asked = Judging({node.name: node}, Profile.DELIVERY, Baselines.read(), waivers_of(node))
    found = list(complaints_about_claims(node, facts_of(machine), frozenset({"ib_write_bw"}), asked))
    said = list(lines([node], found))
    assert (
        "note: gpu01: may stay unproven: rails: no ib_write_bw, 2 nodes in one run, of 1 - signed for: ticket 4711 "
        "(owner lee, expires 2026-12-31)"
    ) in said
    assert "note: gpu01: may stay unproven: burned" in said
    assert any("cannot be proven: rails_gpu_memory: no ib_write_bw - supply it" in line for line in said)
