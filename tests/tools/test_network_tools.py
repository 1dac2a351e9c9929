"""ibstatus, ibstat and the fabric manager's log."""

from __future__ import annotations

import pytest
from support import ibstatus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import fabric_manager

# ibstatus and ibstat


def test_ibstatus_of_healthy_ports():
    rail, bond = ibstatus.parse_ibstatus(recording("ibstatus", "healthy.txt")).ports
    assert (rail.device, rail.port, rail.state, rail.phys_state) == ("mlx5_0", 1, "ACTIVE", "LinkUp")
    assert (rail.rate_gbps, rail.lanes, rail.link_layer, rail.sm_lid) == (400.0, 4, "InfiniBand", 1)
    assert (bond.rate_gbps, bond.lanes, bond.link_layer) == (200.0, 2, "Ethernet")


def test_ibstatus_of_faulty_ports():
    down, narrow = ibstatus.parse_ibstatus(recording("ibstatus", "faulty.txt")).ports
    assert (down.state, down.phys_state) == ("DOWN", "Polling")
    assert (narrow.state, narrow.rate_gbps, narrow.lanes) == ("INIT", 100.0, 1)


def test_ibstat_of_healthy_and_faulty_ports():
    (healthy,) = ibstatus.parse_ibstat(recording("ibstatus", "ibstat-healthy.txt")).devices
    assert (healthy.firmware, healthy.hca_type) == ("28.41.1000", "MT4129")
    assert (healthy.ports[0].state, healthy.ports[0].rate_gbps) == ("ACTIVE", 400.0)
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
        fabric_manager.parse_log,
    ],
)
def test_empty_output_says_nothing(parse):
    with pytest.raises(CannotMeasure, match="is empty"):
        parse("")


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
