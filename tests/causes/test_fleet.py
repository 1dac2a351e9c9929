"""Equal causes of many nodes are one line; what crowds in one rack is the rack's; the line fits and names the part."""

from dataclasses import replace

import pytest
from support.made_findings import finding, rate, record

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.causes.lines import line, shortened
from nodegate.records import part

RACKS = {f"gpu{index:02}": f"r{index // 8}" for index in range(64)}


def fleet(findings, racks=None):
    nodes = {
        node: causes_of([record(check, *found, node=node)] if found else [], conditions())
        for node, (check, *found) in findings.items()
    }
    return fleet_causes(nodes, racks or {})


def throughput(chosen, *found):
    return fleet({name: ("burn.throughput", *(found if name in chosen else ())) for name in RACKS}, RACKS)


def low(serial):
    return rate("fail", part.gpu(3, serial=serial), 600.0, 730.0, "burn.bf16_tflops")


def test_a_setting_that_several_nodes_share_is_one_line():
    wrong = finding("fail", part.setting("/etc/nccl.conf"), "NCCL_IB_DISABLE=1: InfiniBand is not used")
    (cause,) = fleet({f"gpu{index:02}": ("software.nccl_settings", wrong) for index in (1, 2, 3)})
    assert line(cause).where == "gpu[01-03]"


def test_two_boards_keep_a_line_each_with_their_serial_numbers():
    found = fleet({"gpu01": ("burn.throughput", low("111")), "gpu02": ("burn.throughput", low("222"))})
    assert [line(cause).part for cause in found] == ["GPU 3 S/N 111", "GPU 3 S/N 222"]


def test_eight_slow_nodes_of_one_rack_are_the_racks():
    (cause,) = fleet({name: ("burn.throughput", *[low(name)] * (rack == "r7")) for name, rack in RACKS.items()}, RACKS)
    assert line(cause).where == "rack r7: gpu[56-63]"


def test_the_numbers_of_many_nodes_are_a_range():
    rates = {"gpu01": 600.0, "gpu02": 610.0, "gpu03": 620.0}
    found = {
        name: ("burn.throughput", rate("fail", part.gpu(3), value, 730.0, "burn.bf16_tflops"))
        for name, value in rates.items()
    }
    (cause,) = fleet(found)
    assert line(cause).what == "bf16_tflops 600 to 620 Gb/s, expected at least 730 Gb/s"


def test_worst_first():
    found = fleet(
        {
            "gpu01": ("drift.same_as_fleet", finding("warn", part.setting("BIOS"), "1.2", code="bios version")),
            "gpu02": ("burn.results", finding("fail", part.gpu(4), "3 wrong results in bf16")),
            "gpu03": ("gpu.lost", finding("fail", part.gpu(3), "lost")),
        }
    )
    assert [cause.severity.value for cause in found] == ["wrong data", "lost", "drift"]


def test_a_text_is_cut_at_a_word():
    assert shortened("power-cycle the node; if it stays, reseat", 24) == "power-cycle the..."


# The highest level that explains is told: a rack, a firmware, a node; what it does not explain stays apart.


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


def test_one_gpu_that_is_slower_than_its_slow_node_stays_a_cause():
    found = causes(gpu(0, 0.80), *(gpu(index) for index in range(1, 8)), node())
    assert [(cause.condition, len(cause.follows)) for cause in found] == [("gpu_slow", 0), ("node_slow", 7)]


def test_a_slow_rack_is_one_line_with_all_its_numbers():
    of_rack = [name for name, rack in RACKS.items() if rack == "r7"]
    (cause,) = throughput(of_rack, batch(), batch(quantity="fp32 rate"), gpu(0))
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
    found = throughput([*(f"gpu{at}" for at in range(24, 31)), "gpu01", "gpu50"], node())
    assert [line(cause).where for cause in found] == ["rack r3: gpu[24-30]", "gpu[01,50]"]


@pytest.mark.parametrize("each", [3, 8], ids=["a third of the fleet", "one of each rack"])
def test_what_is_spread_over_racks_is_no_racks(each):
    (cause,) = throughput([*RACKS][::each], node())
    assert not cause.place
