"""A fleet of 64 nodes with a systemd each on one machine: one run says of every one of them what it is."""

from endtoend.node_cases import on

from lab import needs
from lab.nodes import faults, gpus
from lab.nodes.image import image
from lab.nodes.nodes import Nodes, why_not
from lab.nodes.runs import run_with_faults
from nodegate.claims.verdict import node_verdict
from nodegate.records.verdict import NodeVerdict

COUNT, FAULTY = 64, "gpu-37"
BY_EIGHT = "--nodes-at-once=8"  # they share two cores: 64 probes at once would run into their time limits


def test_one_faulty_node_of_64_is_found_and_the_others_are_accepted(tmp_path, told):
    needs.require(why_not())
    with Nodes(image(), COUNT, tmp_path, gpus.prepare) as lab:
        healthy = {node.name: faults.nothing for node in lab.nodes}
        outcome = run_with_faults(
            lab, tmp_path / "run", {**healthy, FAULTY: faults.narrow_link}, "--profile=bootcheck", BY_EIGHT
        )
        told.run(
            "a GPU's PCIe link at two lanes, on one of 64 nodes",
            "sysfs: current_link_width",
            outcome=outcome,
            node=FAULTY,
            check="pcie.link_width",
            words=on(FAULTY, "GPU 6 (0000:73:00.0, S/N 165NODE000007): link width 2 lanes, expected at least 16 lanes"),
        )
    said = [record for record in outcome.records if record.verdict.value not in ("pass", "skip", "not-judged")]
    assert [(record.node, record.check) for record in said] == [(FAULTY, "pcie.link_width")], said
    accepted = [name for name in healthy if node_verdict(outcome.of(name).values()) is NodeVerdict.ACCEPTED]
    assert len(accepted) == COUNT - 1
