"""Kernel logs compared: links that fell together, errors that few nodes have, and how little is kept of each log."""

import pytest
from fleet.machine import EPOCH_S, Machine, facts_of

from fuzz.growth import MOST_GROWTH, growth
from nodegate.facts import NodeFacts
from nodegate.judge.characteristics import characteristics
from nodegate.kernel_log.flaps import Together
from nodegate.kernel_log.fleet import MOST_LINK_DOWNS, FleetLog, LinkDown, LogTraits, log_traits
from nodegate.kernel_log.unknown_errors import MOST_SHAPES, shape
from nodegate.probe.document import document_of

DEVICE = "0000:3a:00.0 ibp58s0"


def nodes(*downs_s, rail="mlx5_2"):
    """Node gpu<n> lost its link at downs_s[n]."""
    return {
        f"gpu{number}": ("hgx", LogTraits((LinkDown(when, DEVICE, rail),), readable=True))
        for number, when in enumerate(downs_s)
    }


ONE_NODE = tuple(LinkDown(100.0, DEVICE if number == 2 else f"mlx5_{number}", f"mlx5_{number}") for number in range(8))
MIXED = nodes(100.0, 100.1) | {"gpu9": nodes(100.2, rail="mlx5_3")["gpu0"]}
PLATFORMS = {name: (f"platform {name}", traits) for name, (_, traits) in nodes(100.0, 100.1, 100.2).items()}


@pytest.mark.parametrize(
    ("log", "node", "when_s", "found"),
    [
        (nodes(100.0, 100.4, 100.9, 500.0), "gpu0", 100.0, Together(2, "mlx5_2")),  # within a second: one event
        (nodes(100.0, 100.4, 100.9, 500.0), "gpu2", 100.9, Together(2, "mlx5_2")),
        (nodes(100.0, 100.4, 100.9, 500.0), "gpu3", 500.0, None),
        ({"gpu0": ("hgx", LogTraits(ONE_NODE, readable=True))}, "gpu0", 100.0, None),  # no switch event
        (MIXED, "gpu0", 100.0, Together(2, "")),  # links of several rails have no rail
        (PLATFORMS, "gpu0", 100.0, Together(2, "mlx5_2")),  # platforms share their switches
    ],
)
def test_links_of_many_nodes_that_fall_together_are_one_event(log, node, when_s, found):
    assert FleetLog(log).together(node, DEVICE, when_s) == found


def test_an_error_is_counted_among_the_nodes_of_its_platform_whose_log_was_read():
    known = {f"gpu{number}": ("hgx", LogTraits(strange=frozenset({"a"}), readable=True)) for number in range(3)}
    known |= {"gpu7": ("hgx", LogTraits()), "l40s1": ("l40s", LogTraits(strange=frozenset({"a"}), readable=True))}
    log = FleetLog(known)
    assert log.having("gpu0", "a") == (3, 3)
    assert log.having("gpu7", "b") == (0, 3)
    assert [each for each in (*known, "nobody") if log.can_judge(each)] == ["gpu0", "gpu1", "gpu2", "gpu7"]


def test_the_traits_name_rails_by_the_adapter_on_that_address():
    machine = Machine.hgx_h100()
    machine.kernel(f"mlx5_core {machine.nic_address(2)} ibp58s0: Link down", ago_s=100)
    machine.kernel("infiniband mlx5_3: Port: 1 Link DOWN", ago_s=90)
    machine.kernel("bnxt_en 0000:ff:00.0 eno9: NIC Link is Down", ago_s=80)
    traits = log_traits(facts_of(machine))
    assert [(down.epoch_s, down.rail) for down in traits.link_downs] == [
        (EPOCH_S - 100, "mlx5_2"),
        (EPOCH_S - 90, "mlx5_3"),
        (EPOCH_S - 80, ""),
    ]


def test_a_log_that_cannot_be_read_has_no_traits():
    machine = Machine.hgx_h100()
    machine.section_fails("kernel_log", "denied")
    assert characteristics(facts_of(machine)).log == LogTraits()


def test_little_is_kept_of_a_log_full_of_errors_and_flaps():
    machine = Machine.hgx_h100()
    for number in range(2000):
        machine.kernel(f"{'abcdefghij'[number % 10] * (number // 10 + 1)}: fatal error of nvidia", ago_s=9000 - number)
        machine.kernel(f"mlx5_core {machine.nic_address(0)} ibp24s0: Link down", ago_s=9000 - number)
    traits = log_traits(facts_of(machine))
    assert len(traits.link_downs) == MOST_LINK_DOWNS
    assert traits.link_downs[-1].epoch_s == EPOCH_S - 7001
    assert len(traits.strange) <= MOST_SHAPES
    assert all(len(each) <= 120 for each in traits.strange)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nvidia 0000:3d:00.0: error 17 at 0xffff8a01", "nvidia 0000:bb:00.0: error 4 at 0xffff8b77"),
        ("tg3 0000:03:00.0 eno1: failed after 1.52 s", "tg3 0000:04:00.0 eno1: failed after 20 s"),
        ("uuid 5f0c7a3e-2b1d-4c58-9e60-0066c9fd4125 lost", "uuid 11111111-2222-3333-4444-555555555555 lost"),
        ("port a0:88:c2:52:1c:34 failed", "port b8:3f:d2:00:00:01 failed"),
        ("error in deadbeef01234567", "error in 0123456789abcdef"),
    ],
)
def test_the_same_message_of_two_nodes_has_one_shape(one, other):
    assert shape(one) == shape(other)


def test_words_of_a_message_are_not_put_aside():
    assert shape("facade failed") != shape("cascade failed")
    assert shape("nvme error: accessed deadbeef") == "nvme error: accessed deadbeef"


def falling_at_once(count):
    """So many nodes, each with all the link-downs that are kept."""
    downs = tuple(LinkDown(100.0 + number / 100, DEVICE, "mlx5_2") for number in range(MOST_LINK_DOWNS))
    return {f"gpu{number}": ("hgx", LogTraits(downs, readable=True)) for number in range(count)}


def test_the_work_grows_with_the_number_of_nodes_and_not_with_its_square():
    assert growth(FleetLog, falling_at_once, 1600) <= MOST_GROWTH


@pytest.mark.parametrize("clock", [float("inf"), float("nan"), -1e308, 1e308])
def test_a_clock_that_shows_no_time_harms_nothing(clock):
    machine = Machine.hgx_h100(epoch_s=EPOCH_S)
    for line in ("mlx5_core 0000:1a:00.0 ib0: Link down", "nvidia: strange error", "NVRM: Xid (PCI:0000:3d:00): 79, x"):
        machine.sections["kernel_log"]["lines"].append(f"[   12.500000] {line}")
    document = machine.document() | {"epoch_s": clock}
    facts = NodeFacts(document_of(document, received_epoch_s=1.0, round_trip_s=0.1))
    traits = log_traits(facts)
    FleetLog(dict.fromkeys(("gpu1", "gpu2", "gpu3"), ("hgx", traits)))
    assert traits.readable
