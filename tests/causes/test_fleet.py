"""Equal causes of many nodes are one line; what crowds in one rack is the rack's; the line fits and names the part."""

from support.made_findings import finding, rate, record

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.fleet import fleet_causes
from nodegate.causes.lines import line, shortened
from nodegate.records import part


def fleet(findings, racks=None):
    """Each node's one finding of `check`."""
    nodes = {
        node: causes_of([record(check, found, node=node)] if found else [], conditions())
        for node, (check, found) in findings.items()
    }
    return fleet_causes(nodes, racks or {})


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
    racks = {f"gpu{index:02}": f"r{index // 8}" for index in range(64)}
    found = {name: ("burn.throughput", low(name) if rack == "r7" else None) for name, rack in racks.items()}
    (cause,) = fleet(found, racks)
    assert line(cause).where == "rack r7: gpu[56-63]"


def test_slow_nodes_spread_over_racks_are_no_racks():
    racks = {f"gpu{index:02}": f"r{index // 8}" for index in range(64)}
    found = {name: ("burn.throughput", low(name) if int(name[3:]) % 8 == 0 else None) for name in racks}
    (cause,) = fleet(found, racks)
    assert not cause.place


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
