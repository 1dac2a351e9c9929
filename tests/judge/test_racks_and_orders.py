"""Racks that are not one, and boards that were paid for and are not there.

What no single node shows: a tray in another NVLink domain than its rack, serial numbers of the order that nobody has.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.judging import fleet_of, judge_one
from support.recorded import PytestOutcome, run_pytest, write_fleet

from nodegate.node import Node
from nodegate.records.finding import Record
from nodegate.records.verdict import Verdict

ONE, TWO = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
NONE = "00000000-0000-0000-0000-000000000000"


def said_of_trays(clusters: Sequence[object], rack: str = "r1") -> list[Record]:
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
def test_a_tray_in_another_domain(odd: str) -> None:
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
def test_what_is_no_odd_tray(clusters: Sequence[object], verdicts: list[Verdict]) -> None:
    assert [record.verdict for record in said_of_trays(clusters)] == verdicts


def test_without_racks_in_the_inventory_nothing_is_compared() -> None:
    assert {record.verdict for record in said_of_trays([ONE] * 4 + [TWO], rack="")} == {Verdict.SKIP}


def test_serial_numbers_that_no_node_has_are_noted_and_an_order_that_is_all_there_is_not(tmp_path: Path) -> None:
    machines = [Machine.hgx_h100(f"gpu{number}", number) for number in range(1, 4)]
    have = [machine.sections["system"]["dmi"]["product_serial"] for machine in machines]
    hosts = write_fleet(tmp_path, machines)
    text = hosts.read_text()
    asked = ["--inventory", "hosts.yaml", "--passive", "-k", "ordered"]

    def ordered(*chassis: str) -> PytestOutcome:
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
