"""What holds for every check of links, network, host, software and kernel log: unknown never passes, nothing breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from nodegate import suite
from nodegate.errors import NotJudged
from nodegate.facts import FACTS
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nodegate.records.finding import Record

SUBJECTS = ("pcie", "rdma", "kernel_log", "host", "software", "platform", "drift")
CHECKS = [check for check in suite.checks() if check.id.partition(".")[0] in SUBJECTS]
FACTS_USED = sorted({name for check in CHECKS for name in check.asks_for if name in FACTS})
FINE = (Verdict.PASS, Verdict.SKIP, Verdict.NOT_JUDGED)
COUNTERS = ("counters", "hw_counters", "gids", "gid_types")  # no check of a single reading looks at these
JUNK = ({"why": "failed", "detail": "EIO"}, None, "\ud800 junk", -1, [], {})


def judge_all(
    machine: Machine, profile: Profile = Profile.DELIVERY, checks: Sequence[suite.Check] = CHECKS
) -> Mapping[str, Record]:
    facts = facts_of(machine)
    node = Node("gpu01", expected={"mounts": ["/mnt/data"], "require": ["cuda", "nccl"]}, origin="hosts.yaml:3")
    context = {"node": node, "profile": profile, "baseline": baseline_of(facts, node)}

    def resolve(name: str) -> object:
        if name == "fleet":
            raise NotJudged("alone")
        return context[name] if name in context else facts.get(name)

    parts = node_parts(facts)
    return {check.id: judge(check, resolve, node.name, parts) for check in checks}


def sections_of(fact: str) -> tuple[str, ...]:
    return FACTS[fact].sections


@pytest.mark.parametrize("make", [Machine.hgx_h100, Machine.pcie_l40s])
@pytest.mark.parametrize("profile", list(Profile))
def test_a_healthy_machine_raises_nothing(make: Callable[[], Machine], profile: Profile) -> None:
    raised = {name: record.message for name, record in judge_all(make(), profile).items() if record.verdict not in FINE}
    assert raised == {}


@pytest.mark.parametrize("why", ["timeout", "denied", "hung", "failed"])
@pytest.mark.parametrize("fact", FACTS_USED)
def test_no_check_passes_without_a_fact_that_it_asks_for(fact: str, why: str) -> None:
    machine = Machine.hgx_h100()
    for section in sections_of(fact):
        machine.section_fails(section, why, "planted")
    records = judge_all(machine)
    passed = [
        check.id
        for check in CHECKS
        if fact in check.asks_for and records[check.id].verdict in (Verdict.PASS, Verdict.WARN)
    ]
    assert passed == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a section, of lists only the first entries."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, part in inner:
        if key not in COUNTERS:
            yield from leaves(part, (*path, key))


def put(holder: Any, path: tuple[Any, ...], value: object) -> None:
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value


ASKED_BY_THE_MACHINE = {("kernel_log", ()), ("kernel_log", ("lines",))}  # it adds its own lines to them
SECTIONS = sorted({section for fact in FACTS_USED for section in sections_of(fact)} - {"nvidia_smi", "services"})


@pytest.mark.parametrize("section", SECTIONS)
def test_no_value_that_a_node_sends_breaks_a_check(section: str) -> None:
    broken = set()
    checks = [
        check for check in CHECKS if any(section in sections_of(name) for name in FACTS_USED if name in check.asks_for)
    ]
    for number, path in enumerate(leaves(Machine.hgx_h100().sections[section])):
        if (section, path) in ASKED_BY_THE_MACHINE:
            continue
        machine = Machine.hgx_h100()
        put(machine.sections, (section, *path), JUNK[number % len(JUNK)])
        for record in judge_all(machine, checks=checks).values():
            if "itself failed" in record.message:
                broken.add((path, record.message))
    assert broken == set()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_each_check_says_its_condition_its_failure_modes_and_what_breaks(check: suite.Check) -> None:
    title, _, rest = check.docstring.partition("\n")
    assert check.failure_modes, "the first line ends with its failure modes"
    assert check.title.endswith(".")
    assert len(title) <= 120
    assert len(rest.strip()) > 20, "what breaks when it is false, and where the rule comes from"


def test_each_fault_says_what_to_do() -> None:
    machine = Machine.hgx_h100()
    machine.lose_gpu(3)
    machine.set_link(machine.nic_address(1), width=8)
    machine.set_port("mlx5_2", 1, "state", "1: DOWN")
    machine.stop_service("nvidia-persistenced")
    machine.set("environment", "nccl_conf", "NCCL_IB_DISABLE=1")
    machine.set("system", "kernel_release", "4.18.0")
    machine.kernel("NVRM: Xid (PCI:0000:19:00): 999, something new", ago_s=60)
    machine.kernel("Out of memory: Killed process 1 (python)", ago_s=60)
    found = [finding for record in judge_all(machine).values() for finding in record.findings]
    bad = [finding for finding in found if finding.verdict not in FINE]
    assert len(bad) > 8
    assert [finding.message for finding in bad if not finding.action] == []
