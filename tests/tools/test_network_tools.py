"""ibstatus, ibstat, show_gids, ethtool and the fabric manager's log."""

from __future__ import annotations

import pytest
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import ethtool, fabric_manager, ibstatus, show_gids
from nodegate.unknown import Unknown, Why

# ibstatus and ibstat


def test_ibstatus_of_healthy_ports():
    rail, bond = ibstatus.parse_ibstatus(recording("ibstatus", "healthy.txt")).ports
    assert (rail.subject, rail.state, rail.phys_state) == ("mlx5_0 port 1", "ACTIVE", "LinkUp")
    assert (rail.rate_gbps, rail.lanes, rail.link_layer, rail.lid, rail.sm_lid) == (400.0, 4, "InfiniBand", 28, 1)
    assert (bond.rate_gbps, bond.lanes, bond.link_layer) == (200.0, 2, "Ethernet")


def test_ibstatus_of_faulty_ports():
    down, narrow = ibstatus.parse_ibstatus(recording("ibstatus", "faulty.txt")).ports
    assert (down.state, down.phys_state) == ("DOWN", "Polling")
    assert (narrow.state, narrow.rate_gbps, narrow.lanes) == ("INIT", 100.0, 1)


def test_ibstat_of_healthy_and_faulty_ports():
    (healthy,) = ibstatus.parse_ibstat(recording("ibstatus", "ibstat-healthy.txt")).devices
    assert (healthy.firmware, healthy.hca_type) == ("28.41.1000", "MT4129")
    assert (healthy.ports[0].state, healthy.ports[0].rate_gbps, healthy.ports[0].lid) == ("ACTIVE", 400.0, 28)
    (port,) = ibstatus.parse_ibstat(recording("ibstatus", "ibstat-faulty.txt")).ports
    assert (port.state, port.phys_state) == ("DOWN", "Disabled")


@pytest.mark.parametrize(
    ("parse", "name"), [(ibstatus.parse_ibstatus, "truncated.txt"), (ibstatus.parse_ibstat, "ibstat-truncated.txt")]
)
def test_a_port_that_is_cut_off_is_named(parse, name):
    with pytest.raises(CannotMeasure, match="mlx5_0 has no"):
        parse(recording("ibstatus", name))


@pytest.mark.parametrize(
    "parse",
    [
        ibstatus.parse_ibstatus,
        ibstatus.parse_ibstat,
        ethtool.parse_settings,
        ethtool.parse_statistics,
        ethtool.parse_module,
        fabric_manager.parse_log,
    ],
)
def test_empty_output_says_nothing(parse):
    with pytest.raises(CannotMeasure, match="is empty"):
        parse("")


# show_gids


def test_show_gids():
    first, second = show_gids.parse(recording("show_gids", "healthy.txt"))
    assert (first.index, first.ipv4, first.version, first.netdev) == (0, "", "v1", "ens1np0")
    assert (second.index, second.ipv4, second.version) == (3, "10.30.0.2", "v2")


def test_show_gids_without_a_row_or_cut_off():
    with pytest.raises(CannotMeasure, match="shows no GID"):
        show_gids.parse(recording("show_gids", "none.txt"))
    with pytest.raises(CannotMeasure, match="mlx5_0"):
        show_gids.parse(recording("show_gids", "truncated.txt"))


# ethtool


def test_link_settings():
    up = ethtool.parse_settings(recording("ethtool", "settings-healthy.txt"))
    assert (up.device, up.speed_mbps, up.link_detected) == ("ens1np0", 200_000, True)
    down = ethtool.parse_settings(recording("ethtool", "settings-down.txt"))
    assert (down.speed_mbps, down.link_detected) == (Unknown(Why.MISSING, "no link"), False)
    with pytest.raises(CannotMeasure, match="Speed: 200000Mb/s"):
        ethtool.parse_settings(recording("ethtool", "settings-truncated.txt"))


def test_statistics_are_split_at_the_last_colon():
    found = ethtool.parse_statistics(recording("ethtool", "statistics-healthy.txt"))
    assert (found["rxq0: rx_pkts"], found["rxq1: rx_pkts"]) == (5_000_000, 5_000_001)
    assert found["rx_err_lane_3_phy"] == 17_722_623
    with pytest.raises(CannotMeasure, match="link_down_even"):
        ethtool.parse_statistics(recording("ethtool", "statistics-truncated.txt"))


def test_a_module_is_read_with_its_own_limits():
    module = ethtool.parse_module(recording("ethtool", "module-healthy.txt"))
    assert (module.temperature_c, module.sent_dbm, module.received_dbm) == (41.5, (-0.4, -0.2), (-0.9, -1.0))
    assert module.thresholds["Laser rx power low alarm"] == -13.4
    assert module.thresholds["Module temperature high alarm"] == 75.0
    assert module.raised == ()


def test_a_dark_lane_raises_its_alarm():
    module = ethtool.parse_module(recording("ethtool", "module-dark.txt"))
    assert module.received_dbm == (-0.9, -40.0)
    assert [name.split()[-2:] for name in module.raised] == [["(Channel", "2)"]]


def test_a_copper_cable_has_no_diagnostics():
    module = ethtool.parse_module(recording("ethtool", "module-copper.txt"))
    assert module.temperature_c == Unknown(Why.NOT_SUPPORTED, "no diagnostics")
    assert (module.received_dbm, module.raised) == ((), ())


def test_a_module_that_is_cut_off_is_quoted():
    with pytest.raises(CannotMeasure, match=r"0\.7943 mW"):
        ethtool.parse_module(recording("ethtool", "module-truncated.txt"))


# fabric manager


def test_a_healthy_log_has_no_error():
    entries = fabric_manager.parse_log(recording("fabric_manager", "healthy.txt"))
    assert [entry.level for entry in entries] == ["INFO"] * 3
    assert entries[1].message.endswith("length:14 Message payload details:Team release request: Team Handle:99 Flags:0")


def test_switch_errors_are_read():
    entries = fabric_manager.parse_log(recording("fabric_manager", "faulty.txt"))
    errors = [fabric_manager.switch_error(entry) for entry in entries if entry.level == "ERROR"]
    assert errors == [
        fabric_manager.SwitchError(fatal=True, sxid=20034, address="0000:6e:00.0", port=33),
        fabric_manager.SwitchError(fatal=False, sxid=12028, address="0000:6e:00.0", port=61),
        None,
    ]


def test_a_tail_that_begins_within_an_entry_loses_only_that_entry():
    assert len(fabric_manager.parse_log(recording("fabric_manager", "truncated.txt"))) == 2
    with pytest.raises(CannotMeasure, match="has no entry: something else"):
        fabric_manager.parse_log("something else\n")
