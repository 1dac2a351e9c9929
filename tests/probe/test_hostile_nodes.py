"""What hostile nodes send."""

import copy
import json
import time
from pathlib import Path

import pytest
from fleet.machine import Machine, facts_of
from support.judging import judge_one
from support.load_fleet import LoadFleet
from support.payload import run_probe

from nodegate.errors import CannotMeasure

CPU_S = 8.0  # on a machine of which other tests have a part; it takes 1 s


def test_more_gpus_than_a_machine_has_are_no_reading() -> None:
    machine = Machine.hgx_h100()
    listed = machine.sections["nvml"]["gpus"]
    listed += [{**copy.deepcopy(listed[0]), "index": number} for number in range(8, 4000)]
    with pytest.raises(CannotMeasure, match="lists 4000 GPUs, which no machine has"):
        facts_of(machine).gpus  # noqa: B018 - it is read when it is asked for


def test_many_instances_cost_no_time() -> None:
    machine = Machine.hgx_h100()
    for number in range(4096):
        machine.kernel(f"NVRM: Xid (PCI:0000:19:00, GPU-I:{number:02}): 13, pid=1, name=x", ago_s=4000 - number / 2)
    began_s = time.process_time()
    record = judge_one("kernel_log.xid", machine)
    assert time.process_time() - began_s < CPU_S
    assert len(record.findings) > 4000


def test_a_tree_that_is_measured_in_place_of_the_machine_is_told(tmp_path: Path) -> None:
    with LoadFleet(tmp_path / "fleet", 1, with_rdma=0) as fleet:
        outcome = fleet.run(tmp_path / "run", asked=("node",))
        tree = str(fleet["gpu1"].folder / "tree")
    assert json.loads((outcome.folder / "evidence/gpu1/facts.json").read_text())["document"]["root"] == tree
    assert "note: NODEGATE_PROBE_ROOT is set on gpu1: what is judged is a tree of files" in outcome.stdout
    assert "root" not in run_probe(sections=["system"]).document
