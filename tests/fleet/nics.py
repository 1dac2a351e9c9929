"""Made-up RDMA adapters and network devices in the words of sysfs, healthy until changed."""

from typing import Any

_COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
    "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets",
)  # fmt: skip
_HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "out_of_buffer",
    "out_of_sequence", "packet_seq_err", "req_cqe_error", "req_cqe_flush_error", "req_remote_access_errors",
    "req_remote_invalid_request", "resp_cqe_error", "resp_cqe_flush_error", "resp_local_length_error",
    "resp_remote_access_errors", "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart",
    "roce_slow_restart_cnps", "roce_slow_restart_trans", "rx_atomic_requests", "rx_read_requests", "rx_write_requests",
)  # fmt: skip
_ROCE_COUNTERS = ("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored")
# What a port in service since a few weeks shows: absolute values prove nothing.
_HARMLESS = {
    "port_rcv_data": 230_539_874_932_483, "port_xmit_data": 230_442_669_431_839, "port_rcv_packets": 317_548_853_677,
    "port_xmit_packets": 315_487_941_081, "unicast_rcv_packets": 317_548_853_677,
    "unicast_xmit_packets": 315_487_941_081, "port_rcv_errors": 14, "port_rcv_switch_relay_errors": 1,
    "port_xmit_wait": 2_489_603_687, "lifespan": 12, "roce_adp_retrans": 3,
}  # fmt: skip


def infiniband_adapter(number: int, address: str, *, guid: str, netdev: str) -> dict[str, Any]:
    """A ConnectX-7 with one NDR port that a subnet manager has brought up."""
    counters = _counters(number, _COUNTERS)
    # The IBTA's small counters of a port in service: a buffer overrun count near its 4-bit end, one link_downed near
    # its 8-bit end.
    counters["excessive_buffer_overrun_errors"] = "13"
    counters["link_downed"] = "251" if number == 1 else "0"
    port = _port("InfiniBand", "400 Gb/sec (4X NDR)", counters, _counters(number, _HW_COUNTERS), netdev)
    port |= {"sm_lid": "0x1", "gids": {"0": f"fe80:0000:0000:0000:{guid}"}, "gid_types": {"0": "IB/RoCE v1"}}
    return _adapter(("28.41.1000", "MT4129"), address, port, guid=guid)


def ethernet_adapter(
    address: str, *, guid: str, netdev: str, rate: str, ip: str, bluefield: bool = False
) -> dict[str, Any]:
    """A RoCE adapter: a ConnectX-7, or a BlueField-3 with a bond."""
    hw_counters = _counters(0, _HW_COUNTERS + _ROCE_COUNTERS)
    hw_counters |= {"np_cnp_sent": "48213", "np_ecn_marked_roce_packets": "48213", "rp_cnp_handled": "47008"}
    port = _port("Ethernet", rate, _counters(0, _COUNTERS), hw_counters, netdev)
    mapped = "0000:0000:0000:0000:0000:ffff:" + "".join(f"{int(part):02x}" for part in ip.split("."))
    mapped = f"{mapped[:-4]}:{mapped[-4:]}"
    local = f"fe80:0000:0000:0000:{guid}"
    port |= {
        "sm_lid": "0x0",
        "gids": {"0": local, "1": local, "2": mapped, "3": mapped},
        "gid_types": {"0": "IB/RoCE v1", "1": "RoCE v2", "2": "IB/RoCE v1", "3": "RoCE v2"},
    }
    kind = ("32.38.3056", "MT41692") if bluefield else ("28.41.1000", "MT4129")
    return _adapter(kind, address, port, guid=guid)


def netdev(address: str, *, mtu: int) -> dict[str, Any]:
    """A physical network device with its link up."""
    return {"carrier": "1", "mtu": str(mtu), "carrier_changes": "2", "pci": address}


def _adapter(kind: tuple[str, str], address: str, port: dict[str, Any], *, guid: str) -> dict[str, Any]:
    return {"fw_ver": kind[0], "hca_type": kind[1], "node_guid": guid, "pci": address, "ports": {"1": port}}


def _port(
    layer: str, rate: str, counters: dict[str, str], hw_counters: dict[str, str], netdev_name: str
) -> dict[str, Any]:
    up = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": rate, "link_layer": layer, "netdev": netdev_name}
    return {**up, "counters": counters, "hw_counters": hw_counters}


def _counters(number: int, names: tuple[str, ...]) -> dict[str, str]:
    base = {name: _HARMLESS.get(name, 0) for name in names}
    return {name: str(value + number if value > 1_000_000 else value) for name, value in base.items()}
