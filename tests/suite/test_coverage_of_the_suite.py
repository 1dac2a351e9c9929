"""What holds for every check of the suite: what it says of itself, which failure modes it covers, how it is tested."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fleet.machine import Machine
from support import coverage_page
from support.cases import GOLDEN, assert_findings, cases, words_of, write_words
from support.judging import fleet_of, judge_one

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.errors import Unreachable
from nodegate.judge.context import Context
from nodegate.judge.fleet import Past
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.past.faults import Fault
from nodegate.past.lemon import Lemon, Unit
from nodegate.profile import TIERS, Profile
from nodegate.records.evidence import Evidence
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict

CHECKS = suite.checks()
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "coverage.md"
COMMAND = "make docs"
PASS, WARN, FAIL, ERROR = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR
BAD = frozenset({WARN, FAIL})

# Checks that speak to no failure mode, with the reason. None so far.
WITHOUT_FAILURE_MODE: dict[str, str] = {}
# Reached or not, measured or not: these checks have nothing to warn of.
NEVER_BAD = {"node.reachable", "rdma_bandwidth.complete", "contract.burn_time"}


# docs/reference/coverage.md


def test_the_coverage_page_is_fresh():
    assert PAGE.exists(), f"write it: {COMMAND}"
    assert PAGE.read_text("utf-8") == coverage_page.page(CHECKS), f"stale: write it again: {COMMAND}"


def test_the_page_has_a_part_for_each_failure_mode_and_names_each_check():
    page = " ".join(coverage_page.page(CHECKS).split())
    for mode, about in coverage_page.failure_modes().items():
        assert page.count(f" ### {mode} {about.name} * checks: ") == 1
        assert not about.open or f" * open: {about.open} " in page
    for check in CHECKS:
        assert page.count(f"`{check.id}` ({check.tier})") == len(check.failure_modes) + 1
        assert f" * `{check.id}` ({check.tier}): {check.title} " in page + " "


def test_a_failure_mode_that_no_check_finds_says_what_is_open():
    found = {mode for check in CHECKS for mode in check.failure_modes}
    silent = [mode for mode, about in coverage_page.failure_modes().items() if mode not in found and not about.open]
    assert silent == []


# What a check says of itself


def test_each_check_says_its_condition_in_one_sentence_with_its_failure_modes(subtests):
    for check in CHECKS:
        with subtests.test(check.id):
            first, _, rest = check.docstring.partition("\n")
            assert len(first) <= 120
            if check.id in WITHOUT_FAILURE_MODE:
                assert check.failure_modes == ()
            else:
                assert re.fullmatch(r"\S[^.]*(\.[^. ][^.]*)*\. \(F\d\d(, F\d\d)*\)", first), first
                assert len(set(check.failure_modes)) == len(check.failure_modes)
            assert set(check.failure_modes) <= set(coverage_page.failure_modes())
            assert len(rest.strip()) > 20, "what breaks when it is false, and where the rule comes from"


def test_ids_are_unique_and_tiers_known():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert {check.tier for check in CHECKS} <= set(TIERS)
    assert all(re.fullmatch(r"[a-z_]+\.[a-z_]+", check.id) for check in CHECKS)


# How a check is tested


def four_nodes(change=lambda machine: None):
    machines = {f"gpu{number:02}": Machine.hgx_h100(f"gpu{number:02}", number) for number in range(1, 5)}
    change(machines["gpu01"])
    return machines


def in_fleet(check, change=lambda machine: None):
    machines = four_nodes(change)
    return judge_one(check, machines["gpu01"], fleet=fleet_of(machines))


def unreachable(check):
    error = Unreachable("refused", "gpu01 refused the connection", next_step="look at sshd")
    evidence = Evidence("gpu01", "facts", 0.0, 0.0, error=error)
    context = Context(
        Node("gpu01"), evidence, baselines=Baselines.read(), profile=Profile.DELIVERY, fleet=lambda: fleet_of({})
    )
    return judge(suite.check(check), context.resolve, "gpu01")


def old_kernel(machine):
    machine.set("system", "kernel_release", "5.15.0-101-generic")


def without_gsp(machine):
    for index in range(8):
        machine.set_gpu(index, "gsp_firmware", {"why": "not supported", "detail": ""})
        machine.set_gpu(index, "gsp_mode", [0, 1])


# Checks that need more than one machine's document: the verdict and how it comes about. The clock's own tests stand in
# tests/checks/test_drift_and_skew.py.
BY_HAND: dict[str, dict[Verdict, Callable[[], Record]]] = {
    "drift.same_as_fleet": {
        PASS: lambda: in_fleet("drift.same_as_fleet"),
        WARN: lambda: in_fleet("drift.same_as_fleet", old_kernel),
        ERROR: lambda: unreachable("drift.same_as_fleet"),
    },
    "gsp.fleet": {
        PASS: lambda: in_fleet("gsp.fleet"),
        WARN: lambda: in_fleet("gsp.fleet", without_gsp),
        ERROR: lambda: unreachable("gsp.fleet"),
    },
    "platform.one_name": {
        PASS: lambda: in_fleet("platform.one_name"),
        WARN: lambda: in_fleet("platform.one_name", serial_of_gpu02),
        ERROR: lambda: judge_one("platform.one_name", Machine.hgx_h100("gpu01"), node=Node("gpu01"), fleet=twins()),
    },
    "fabric.one_domain": {
        PASS: lambda: in_rack("gpu02"),
        FAIL: lambda: in_rack("gpu01"),
        ERROR: lambda: unreachable("fabric.one_domain"),
    },
    "node.reachable": {
        PASS: lambda: judge_one("node.reachable", Machine.hgx_h100()),
        ERROR: lambda: unreachable("node.reachable"),
    },
    "lemons.fails_again": {
        PASS: lambda: with_past(Past(27)),
        WARN: lambda: with_past(Past(27, (("GPU 3", lemon("board", "swap")), ("", lemon("node", "soak"))))),
        Verdict.SKIP: lambda: with_past(Past(2)),
        ERROR: lambda: unreachable("lemons.fails_again"),
    },
    "host.clock_skew": {
        PASS: lambda: judge_one("host.clock_skew", Machine.hgx_h100()),
        FAIL: lambda: skewed(60.0),
        ERROR: lambda: unreachable("host.clock_skew"),
    },
}


def serial_of_gpu02(machine):
    machine.set("system", "dmi.product_serial", four_nodes()["gpu02"].sections["system"]["dmi"]["product_serial"])


def in_rack(name):
    """A tray of a rack whose first tray is in another NVLink domain than all others."""
    machines = four_nodes()
    for other, machine in machines.items():
        for index in range(8):
            machine.set_gpu(index, "fabric.cluster_uuid", f"0000000{1 if other == 'gpu01' else 2}-0000-4000")
    node = Node(name, expected={"rack": "r1"})
    return judge_one("fabric.one_domain", machines[name], node=node, fleet=fleet_of(machines, "r1"))


def with_past(past):
    fleet = fleet_of(four_nodes())
    fleet.past = lambda _node: past
    return judge_one("lemons.fails_again", Machine.hgx_h100("gpu01"), fleet=fleet)


def test_a_node_without_nodes_to_compare_does_not_pass():
    record = with_past(Past(27, compared=False))
    assert (record.verdict, record.message) == (Verdict.SKIP, "node: not compared: fewer than 3 nodes of its platform")


def lemon(what, advice):
    faults = tuple(Fault(86400.0 * day, "gpu01", "S/N 1", "S/N 2", "GPU 3", "gpu_lost") for day in (1, 9, 20))
    return Lemon(Unit(what, "S/N 2", "gpu01", "GPU 3", (), (27, 27), faults), 0.1, 1e-6, advice, 28)


def twins():
    machine = Machine.hgx_h100("gpu01")
    return fleet_of({"gpu01": machine, "gpu02": machine})


def skewed(seconds):
    document = Machine.hgx_h100("gpu01").document()
    received_s = document["epoch_s"] + seconds
    evidence = Evidence("gpu01", "facts", received_s, 0.4, received_s, 0.4, document=document)
    context = Context(
        Node("gpu01"), evidence, baselines=Baselines.read(), profile=Profile.DELIVERY, fleet=lambda: fleet_of({})
    )
    return judge(suite.check("host.clock_skew"), context.resolve, "gpu01")


@pytest.mark.parametrize("check", BY_HAND)
def test_checks_that_need_more_than_one_machine(check):
    for verdict, make in BY_HAND[check].items():
        record = make()
        assert record.verdict is verdict, record.message
        assert_findings(record)


def test_each_check_has_a_case_that_passes_one_that_is_bad_and_one_that_cannot_be_judged(subtests):
    for check in CHECKS:
        with subtests.test(check.id):
            tried = {case.verdict for case in cases() if case.check == check.id} | set(BY_HAND.get(check.id, ()))
            assert PASS in tried
            assert tried & BAD or check.id in NEVER_BAD
            assert ERROR in tried


def test_the_words_of_each_case_are_kept_and_no_others():
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        write_words()
        words_of.cache_clear()
    kept = [(file.stem, name) for file in GOLDEN.glob("*.txt") for name in words_of(file.stem)]
    assert sorted(kept) == sorted((case.check, case.name) for case in cases())


def test_each_table_speaks_of_checks_that_there_are():
    assert {case.check for case in cases()} <= {check.id for check in CHECKS}
