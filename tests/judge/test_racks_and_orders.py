"""Racks that are not one, boards that were paid for and are not there, and good nodes that are left alone.

What no single node shows: a tray in another NVLink domain than its rack, serial numbers of the order that nobody has.
"""

import json

import pytest
from fleet.machine import Machine, facts_of
from support.judging import baseline_of, fleet_of, judge_one
from support.recorded import run_pytest, write_fleet

from nodegate import suite
from nodegate.judge.characteristics import Characteristics, ClockSkew
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.kernel_log.fleet import LogTraits
from nodegate.node import Node
from nodegate.probe.host import Clock
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

ONE, TWO = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
NONE = "00000000-0000-0000-0000-000000000000"


def said_of_trays(clusters, rack="r1"):
    """What the check says of trays whose GPUs are in these NVLink clusters."""
    machines = {f"tray{number}": Machine.hgx_h100(f"tray{number}", number) for number in range(1, len(clusters) + 1)}
    for machine, cluster in zip(machines.values(), clusters, strict=True):
        for index in range(8):
            machine.set_gpu(index, "fabric.cluster_uuid", cluster)
    fleet = fleet_of(machines, rack)
    return [
        judge_one("fabric.one_domain", machine, node=Node(name, expected={"rack": rack}), fleet=fleet)
        for name, machine in machines.items()
    ]


@pytest.mark.parametrize("odd", [TWO, NONE])
def test_a_tray_in_another_domain(odd):
    records = said_of_trays([ONE] * 4 + [odd])
    assert [record.verdict for record in records] == [Verdict.PASS] * 4 + [Verdict.FAIL]
    assert ", and 4 are in another" in records[4].message


@pytest.mark.parametrize(
    ("clusters", "verdicts"),
    [
        ([ONE] * 5 + [TWO] * 3, [Verdict.PASS] * 5 + [Verdict.WARN] * 3),  # a rack may hold two
        ([ONE] * 4 + [TWO] * 4, [Verdict.SKIP] * 8),
        ([ONE, ONE], [Verdict.SKIP] * 2),
        ([NONE] * 4, [Verdict.SKIP] * 4),  # HGX: no domain spans nodes
        ([ONE] * 3 + [{"why": "failed", "detail": "NVML 999"}], [Verdict.PASS] * 3 + [Verdict.SKIP]),
    ],
)
def test_what_is_no_odd_tray(clusters, verdicts):
    assert [record.verdict for record in said_of_trays(clusters)] == verdicts


def test_without_racks_in_the_inventory_nothing_is_compared():
    assert {record.verdict for record in said_of_trays([ONE] * 4 + [TWO], rack="")} == {Verdict.SKIP}


def test_serial_numbers_that_no_node_has_are_noted_and_an_order_that_is_all_there_is_not(tmp_path):
    machines = [Machine.hgx_h100(f"gpu{number}", number) for number in range(1, 4)]
    have = [machine.sections["system"]["dmi"]["product_serial"] for machine in machines]
    hosts = write_fleet(tmp_path, machines)
    text = hosts.read_text()
    asked = ["--inventory", "hosts.yaml", "--passive", "-k", "ordered"]

    def ordered(*chassis):
        demand = f"    nodegate_expect: {{chassis_serial: {json.dumps(chassis)}}}\n"
        hosts.write_text(text.replace("  vars:\n", f"  vars:\n{demand}"))
        return run_pytest(tmp_path, asked)

    assert "of the order" not in ordered(*have).stdout
    outcome = ordered(*have, "SN-LOST-1", "SN-LOST-2")
    said = "2 of 5 chassis serial numbers of the order were seen on no node: SN-LOST-1, SN-LOST-2"
    assert f"note: {said}" in outcome.stdout
    assert json.loads((outcome.folder / "report.json").read_text())["run"]["notes"] == [said]
    assert set(outcome.verdicts("ordered.serials").values()) == {"pass"}
    part = run_pytest(tmp_path, [*asked, "--nodes", "gpu1", "--run-dir", "part"])
    assert "of the order" not in part.stdout


# Good nodes: what was rejected or drained without need


BOTH = pytest.mark.parametrize("profile", [Profile.BOOTCHECK, Profile.DELIVERY])


def said_of_a_slot(profile, address):
    """What the check says of a slot that lost its device an hour ago."""
    machine = Machine.hgx_h100()
    machine.kernel(f"pcieport {address}: pciehp: Slot(12): Link Down", ago_s=3600.0)
    machine.kernel(f"pcieport {address}: pciehp: Slot(12): Card not present", ago_s=3600.0)
    return judge_one("kernel_log.pcie_errors", machine, profile=profile)


@BOTH
def test_a_disk_that_is_changed_rejects_no_node(profile):
    record = said_of_a_slot(profile, "0000:f0:01.0")
    assert record.verdict is Verdict.WARN
    assert "no GPU, NVSwitch or NIC is below this slot" in record.message


@BOTH
def test_the_slot_of_a_gpu_still_counts(profile):
    machine = Machine.hgx_h100()
    above = next(each["parent"] for each in machine.sections["pci"] if each["address"] == machine.gpu_address(3))
    assert said_of_a_slot(profile, above).verdict is Verdict.FAIL


@BOTH
def test_without_systemd_nvml_says_whether_persistence_mode_is_on(profile):
    machine = Machine.hgx_h100()
    machine.units.clear()
    assert judge_one("software.persistence_daemon", machine, profile=profile).verdict is Verdict.PASS
    machine.set_gpu(3, "persistence_mode", 0)
    assert judge_one("software.persistence_daemon", machine, profile=profile).verdict is Verdict.ERROR


def said_of_clocks(*skews_s, error_s=0.2):
    """What the check says of clocks that differ so from the controller's, by round trips that leave so much open."""
    limits = baseline_of(facts_of(Machine.hgx_h100()), Node("gpu1"))
    nodes, clocks = {}, {}
    for number, skew_s in enumerate(skews_s, 1):
        clocks[f"gpu{number}"] = clock = Clock(True, 0.0, skew_s, error_s)
        nodes[f"gpu{number}"] = ("hgx-h100-8", Characteristics({}, LogTraits(), ClockSkew(skew_s, clock.skew_error_s)))
    fleet = Fleet(nodes)
    return [
        judge(suite.check("host.clock_skew"), {"clock": clock, "fleet": fleet, "baseline": limits}.__getitem__, name)
        for name, clock in clocks.items()
    ]


TWO_DAYS = 172_800.0


@pytest.mark.parametrize("count", [2, 4, 128])
def test_a_wrong_clock_of_the_controller_rejects_no_node(count):
    records = said_of_clocks(*[TWO_DAYS + number / count for number in range(count)])
    assert {record.verdict for record in records} == {Verdict.WARN}
    assert {part.name for record in records for finding in record.decisive for part in finding.parts} == {
        "controller's clock"
    }
    assert f"172800 s from {count} of {count} nodes, whose clocks agree" in records[0].message


def test_slow_round_trips_are_no_wrong_clock_of_the_controller():
    records = said_of_clocks(2.8, 3.0, error_s=3.4)
    assert {record.verdict for record in records} == {Verdict.PASS}
    assert {record.verdict for record in said_of_clocks(9.0, 9.1, error_s=3.4)} == {Verdict.WARN}


def test_beside_a_wrong_controller_the_odd_node_is_found_even_if_it_agrees_with_it():
    records = said_of_clocks(*[TWO_DAYS] * 4, 0.0, TWO_DAYS + 60)
    assert [record.verdict for record in records] == [Verdict.WARN] * 4 + [Verdict.FAIL] * 2
    assert "difference from the clocks of most nodes 172800 s, expected at most 2 s" in records[4].message


@pytest.mark.parametrize("skews_s", [(TWO_DAYS,), (TWO_DAYS, 0.0), (TWO_DAYS, TWO_DAYS, 0.0), (TWO_DAYS, -60.0, 7.0)])
def test_without_a_majority_the_controller_is_what_nodes_are_compared_with(skews_s):
    verdicts = [record.verdict for record in said_of_clocks(*skews_s)]
    assert verdicts == [Verdict.FAIL if skew_s else Verdict.PASS for skew_s in skews_s]
