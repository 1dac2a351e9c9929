"""Real lspci and /sys/class/infiniband outputs judged as their truth says: mostly links that only look bad."""

import re
from typing import Any

import pytest
from fleet.machine import Machine
from support.corpus import corpus
from support.judging import judge_one

from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict

_HEAD = re.compile(r"^(?P<place>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:]+): (?P<name>.*)$", re.MULTILINE)
_LINK = r"Speed (?P<speed>[\d.]+)GT/s[^,]*, Width x(?P<width>\d+)"
_KINDS = {
    "Ethernet controller": "0x020000",
    "Infiniband controller": "0x020700",
    "3D controller": "0x030200",
    "PCI bridge": "0x060400",
    "Bridge": "0x068000",
}
_VENDORS = {
    "NVIDIA": "0x10de",
    "Mellanox": "0x15b3",
    "Broadcom Inc": "0x14e4",
    "Broadcom / LSI": "0x1000",
    "Intel": "0x8086",
}


def device_of(text: str) -> dict[str, Any]:
    """The device of an `lspci -vvv` block as the probe would bring it from sysfs."""
    head = _HEAD.search(text)
    can, does = re.search("LnkCap:.*" + _LINK, text), re.search("LnkSta:.*" + _LINK, text)
    assert head
    assert can
    assert does
    vendor = next(code for name, code in _VENDORS.items() if head["name"].startswith(name))
    like = dict(Machine.hgx_h100().sections["pci"][0])
    return like | {
        "address": f"0000:{head['place']}",
        "class": _KINDS[head["kind"]],
        "vendor": vendor,
        "device": "0x2330" if head["kind"] == "3D controller" else "0x1021",
        "current_link_width": does["width"],
        "max_link_width": can["width"],
        "current_link_speed": f"{does['speed']} GT/s PCIe",
        "max_link_speed": f"{can['speed']} GT/s PCIe",
        "driver": "mlx5_core" if vendor == "0x15b3" else "",
        "parent": "",
    }


@pytest.mark.parametrize("check", ["pcie.link_width", "pcie.bridge_width", "pcie.link_speed"])
@pytest.mark.parametrize(
    "file",
    [
        "gpud_dellxe9680_bcm5720_width_downgraded.txt",  # an onboard NIC that uses one of two lanes
        "gpud_dellxe9680_root_port_width_downgraded.txt",  # leads to a management device
        "gpud_dellxe9680_pex_switch_bridge_downgraded.txt",  # a switch's own management port
        "gpud_dellxe9680_nvswitch.txt",  # x2 is its full width
        "gpud_dellxe9680_cx6dx_gen4.txt",
        "gpud_dellxe9680_cx7_gen5.txt",
        "gpud_dellxe9680_gpu_h100_gen5.txt",
    ],
)
def test_healthy_devices_of_a_real_server_pass(file: str, check: str) -> None:
    machine = Machine.hgx_h100()
    machine.sections["pci"].append(device_of(corpus(f"lspci/{file}")))
    record = judge_one(check, machine)
    assert record.verdict is Verdict.PASS, record.message


def test_a_real_gpu_is_among_the_judged() -> None:
    machine = Machine.hgx_h100()
    gpu = device_of(corpus("lspci/gpud_dellxe9680_gpu_h100_gen5.txt"))
    machine.sections["pci"] = [gpu]
    record = judge_one("pcie.link_width", machine)
    assert [finding.message for finding in record.findings] == [
        "GPU 0 (0000:19:00.0, S/N 1650001000000): link width 16 lanes"
    ]


def adapter_of(text: str) -> dict[str, Any]:
    """An adapter from "path: value" lines of its sysfs folder."""
    adapter: dict[str, Any] = {"pci": "0000:1a:00.0", "ports": {"1": {"counters": {}, "hw_counters": {}}}}
    for line in text.splitlines():
        path, _, value = line.partition(": ")
        *folders, name = path.split("/")
        holder = adapter
        for folder in folders:
            holder = holder.setdefault(folder, {})
        holder[name] = value
    return adapter


def real_node() -> Machine:
    """A node with the adapters of a real H100 node: three rails and the bond of a BlueField-3."""
    machine = Machine.hgx_h100()
    names = ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_bond_0")
    adapters = {name: adapter_of(corpus(f"rdma/gpud_sysfs_h100_{name}.txt")) for name in names}
    for number, adapter in enumerate(adapters.values()):
        adapter["pci"] = f"0000:{0x1A + number:02x}:00.0"
    machine.sections["infiniband"] = adapters
    return machine


@pytest.mark.parametrize(
    "check", ["rdma.rails", "rdma.port_state", "rdma.port_rate", "rdma.port_lanes", "rdma.firmware"]
)
@pytest.mark.parametrize("rate", [400, None], ids=["with a rate", "without a rate"])
def test_a_real_node_passes_and_its_bond_is_no_rail(check: str, rate: int | None) -> None:
    limits = {"rdma.rails": Limit(3, "ports", "three of eight recorded"), "rdma.rate_gbps": rate}
    record = judge_one(check, real_node(), baseline=limits)
    assert record.verdict is Verdict.PASS, record.message
    assert not any("bond" in finding.part.label for finding in record.findings)


def test_the_management_function_of_a_cloud_is_no_slow_rail() -> None:
    machine = Machine.hgx_h100()
    adapters: dict[str, Any] = {}
    for number, block in enumerate(corpus("rdma/azhpc_ibstatus.txt").split("Infiniband device ")[1:]):
        name = block.split("'")[1]
        values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in block.splitlines())}
        port = {"state": values["state"], "phys_state": values["phys state"], "rate": values["rate"], "netdev": ""}
        port |= {"link_layer": values["link_layer"], "counters": {}, "hw_counters": {}, "sm_lid": "0x1"}
        adapters[name] = {"hca_type": "MT4124", "pci": f"000{number}:00:02.0", "ports": {"1": port}}
    machine.sections["infiniband"] = adapters
    limits = {"rdma.rails": Limit(1, "ports", "a virtual machine"), "rdma.rate_gbps": 200}
    for check in ("rdma.rails", "rdma.port_state", "rdma.port_rate"):
        record = judge_one(check, machine, baseline=limits)
        assert record.verdict is Verdict.PASS, record.message
        assert not any("mlx5_an0" in finding.part.label for finding in record.findings)
