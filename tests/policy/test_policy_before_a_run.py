"""Before a run, `nodegate doctor --policy NAME` says which clauses cannot be judged here."""

from fleet.machine import Machine, facts_of

from nodegate.baseline.baseline import Baselines
from nodegate.commands.doctor import complaints_about_claims, notes_on_policy
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.policy import policy_file
from nodegate.profile import Profile
from nodegate.run.judging import Judging


def asked(name: str) -> Judging:
    found, nodes = policy_file.read(name), {f"gpu{number:02}": Node(f"gpu{number:02}") for number in range(1, 5)}
    limits = Baselines.read(policy=found.limits)
    return Judging(nodes, Profile.DELIVERY, limits, Waivers(), policy=found.policy, names_policy=name != "default")


def told(name: str, machine: Machine, lacking: frozenset[str] = frozenset()) -> list[str]:
    found = complaints_about_claims(Node("gpu01"), facts_of(machine), lacking, asked(name))
    return [complaint.what for complaint in found]


def test_a_clause_without_its_tool_is_named() -> None:
    (said,) = told("strict-h100", Machine.hgx_h100(), frozenset({"all_reduce_perf"}))
    assert said == (
        "cannot be proven: collectives (clause NCCL in a node), collectives_between_nodes (clause NCCL, 2 nodes), "
        "collectives_rack_fleet (clause every item): no all_reduce_perf"
    )


def test_a_node_that_the_policy_is_not_for_is_told_with_the_limits_that_it_lacks() -> None:
    said = told("strict-h100", Machine.pcie_l40s())
    assert "policy strict-h100 is not for platform l40s" in said
    lacks = "cannot be proven: even_heat (clause Temperature, spread): no limit contract.temperature_spread_c"
    assert lacks in said


def test_what_only_contracts_ask_for_is_no_obstacle_without_one() -> None:
    assert told("default", Machine.hgx_h100()) == []


def test_what_nodegate_does_not_measure_is_named_with_its_clause() -> None:
    assert not list(notes_on_policy(asked("default")))
    notes = list(notes_on_policy(asked("clustermax")))
    assert "policy clustermax, clause SHARP: not measured by nodegate: reductions in the switches" in notes
