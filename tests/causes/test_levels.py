"""The highest level that explains is told: a rack, a firmware, a node; what it does not explain stays apart."""

from dataclasses import replace

from support.made_findings import rate, record

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.causes.lines import line
from nodegate.records import part

RACKS = {f"gpu{index:02}": f"r{index // 8}" for index in range(64)}


def gpu(index, share=0.95, verdict="fail"):
    return replace(rate(verdict, part.gpu(index), 700 * share, 690.0, "burn.bf16_tflops"), share=share)


def node(share=0.95, verdict="fail"):
    return replace(rate(verdict, part.NODE, 700 * share, 690.0, "burn.bf16_tflops"), share=share, code="node")


def batch(name="rack r7", quantity="bf16 rate", verdict="fail", share=0.95):
    made = rate(verdict, part.NODE, 700 * share, 690.0, f"burn.{quantity.partition(' ')[0]}_tflops")
    said = f"{name}: 8 nodes 5.1 % below the other 56 in {quantity}"
    return replace(made, share=share, code=f"batch {name}", text=said, quantity=quantity)


def causes(*findings):
    return causes_of([record("burn.throughput", *findings)], conditions())


def test_eight_gpus_that_are_slow_together_are_the_nodes():
    (cause,) = causes(*(gpu(index) for index in range(8)), node())
    assert cause.condition == "node_slow"
    assert len(cause.follows) == 8


def test_one_gpu_that_is_slower_than_its_slow_node_stays_a_cause():
    found = causes(gpu(0, 0.80), *(gpu(index) for index in range(1, 8)), node())
    assert [(cause.condition, len(cause.follows)) for cause in found] == [("gpu_slow", 0), ("node_slow", 7)]


def test_a_slow_rack_is_one_line_with_all_its_numbers():
    said = record("burn.throughput", batch(), batch(quantity="fp32 rate"), gpu(0))
    of_nodes = {
        name: causes_of([replace(said, node=name)] if rack == "r7" else [], conditions())
        for name, rack in RACKS.items()
    }
    (cause,) = fleet_causes(of_nodes, RACKS)
    assert line(cause).where == "rack r7: gpu[56-63]"
    assert line(cause).what == "rack r7: 8 nodes 5.1 % below the other 56 in bf16 rate, also in fp32 rate"
    assert line(cause).action == "check the rack: inlet air, power, switches"


def test_two_batches_of_a_node_are_two_causes():
    found = causes(batch(), batch("GPU VBIOS 96.00.74"))
    assert {line(cause).action for cause in found} == {
        "check the rack: inlet air, power, switches",
        "bring all nodes to one version, or find what else they share",
    }


def test_a_rack_that_is_warned_of_explains_no_gpu_that_fails():
    assert len(causes(batch(verdict="warn"), gpu(0))) == 2


def test_what_seven_of_eight_nodes_of_a_rack_have_and_two_others_is_the_racks_and_theirs():
    slow = [*(f"gpu{at}" for at in range(24, 31)), "gpu01", "gpu50"]
    of_nodes = {
        name: causes_of([record("burn.throughput", node(), node=name)] if name in slow else [], conditions())
        for name in RACKS
    }
    found = fleet_causes(of_nodes, RACKS)
    assert [line(cause).where for cause in found] == ["rack r3: gpu[24-30]", "gpu[01,50]"]


def test_what_a_third_of_the_fleet_has_is_no_racks():
    slow = [name for at, name in enumerate(RACKS) if at % 3 == 0]
    of_nodes = {
        name: causes_of([record("burn.throughput", node(), node=name)] if name in slow else [], conditions())
        for name in RACKS
    }
    (cause,) = fleet_causes(of_nodes, RACKS)
    assert not cause.place
