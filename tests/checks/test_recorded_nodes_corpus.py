"""Real lspci and RDMA outputs, judged as their truth says."""

import re
from dataclasses import replace
from typing import Any

import pytest
from fleet.machine import Machine, facts_of
from support import lspci
from support.corpus import corpus
from support.judging import baseline_of, judge_one

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.judge.judge import judge
from nodegate.judge.node_parts import node_parts
from nodegate.node import Node
from nodegate.probe.pci import Pci
from nodegate.profile import Profile
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict

REAL = "gpud_sysfs_h100_"
REAL_ADAPTERS = (
    *("gpud_sysfs_h100_mlx5_0", "gpud_sysfs_h100_mlx5_1", "gpud_sysfs_h100_mlx5_4"),
    "gpud_sysfs_h100_mlx5_bond_0",
)
LINK_CHECKS = ("pcie.link_width", "pcie.bridge_width", "pcie.link_speed", "pcie.devices_answer")


def judge_with_pci(check_id, machine, pci, expected=None):
    node, facts = Node("gpu01", expected=expected or {}, origin="hosts.yaml:3"), facts_of(machine)
    facts._parsed["pci"] = pci
    context = {"node": node, "profile": Profile.DELIVERY, "baseline": baseline_of(facts, node)}

    def resolve(name):
        return context[name] if name in context else facts.get(name)

    return judge(suite.check(check_id), resolve, node.name, node_parts(facts))


# Where a fabric manager is expected: `lspci -nn`


@pytest.mark.parametrize("check", ["fabric.manager", "fabric.version", "fabric.nvswitches"])
def test_a_card_in_a_virtual_machine_needs_no_fabric_manager(check):
    machine = Machine.pcie_l40s()
    machine.stop_service("nvidia-fabricmanager")
    pci = lspci.parse(corpus("lspci/gpud_nn_a10.txt"))
    assert len(pci.gpus) == 1
    assert judge_with_pci(check, machine, pci).verdict is Verdict.SKIP


def test_six_switches_need_a_fabric_manager():
    pci = lspci.parse(corpus("lspci/gpud_nn_a100.txt"))
    machine, platform = Machine.hgx_h100(), {"platform": "hgx-a100-80gb-8"}
    assert judge_with_pci("fabric.nvswitches", machine, pci, platform).verdict is Verdict.PASS
    assert judge_with_pci("fabric.manager", machine, pci, platform).verdict is Verdict.PASS
    machine.stop_service("nvidia-fabricmanager")
    assert judge_with_pci("fabric.manager", machine, pci, platform).verdict is Verdict.FAIL
    assert judge_with_pci("fabric.manager", machine, pci).verdict is Verdict.FAIL  # by the switches alone
    fewer = Pci(tuple(device for device in pci.devices if device is not pci.nvswitches[2]))
    record = judge_with_pci("fabric.nvswitches", machine, fewer, platform)
    assert record.verdict is Verdict.FAIL
    assert "5 NVSwitches on PCIe, expected 6 switches" in record.message


# Links


@pytest.mark.parametrize("name", ["pciutils_aer_root", "pciutils_phy32"])
@pytest.mark.parametrize("check", LINK_CHECKS)
def test_devices_that_no_job_rests_on_change_nothing(name, check):
    machine = Machine.hgx_h100()
    own = facts_of(machine).pci
    (other,) = lspci.parse(corpus(f"lspci/{name}.txt")).devices
    assert (other.is_gpu, other.is_nic) == (False, False)
    with_it = judge_with_pci(check, machine, Pci((*own.devices, replace(other, address="00ff:00:00.0"))))
    alone = judge_with_pci(check, machine, own)
    assert with_it.verdict is Verdict.PASS
    assert with_it.findings == alone.findings


@pytest.mark.parametrize("check", LINK_CHECKS[:3])
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
def test_healthy_devices_of_a_real_server_pass(file, check):
    machine = Machine.hgx_h100()
    real = lspci.parse(corpus(f"lspci/{file}")).devices
    record = judge_with_pci(check, machine, Pci((*facts_of(machine).pci.devices, *real)))
    assert record.verdict is Verdict.PASS, record.message


def test_a_real_gpu_is_among_the_judged():
    pci = lspci.parse(corpus("lspci/gpud_dellxe9680_gpu_h100_gen5.txt"))
    record = judge_with_pci("pcie.link_width", Machine.hgx_h100(), pci)
    assert record.message == "GPU 0 (0000:19:00.0, S/N 1650001000000): link width 16 lanes"


def link_lines():
    mocks = re.findall(r'"\\t(LnkSta:[^"]*)"', corpus("lspci/azhpc_mock_lnksta.txt"))
    strings = corpus("lspci/ocidr_lnksta_lines.txt").splitlines()
    return [("azhpc", line) for line in mocks] + [("ocidr", line) for line in strings]


def test_gpus_are_judged_by_single_link_lines_with_their_port_numbers():
    verdicts, refused, machine = set(), 0, Machine.hgx_h100()
    own = facts_of(machine).pci
    for file, line in link_lines():
        try:
            speed_gts, width = lspci.parse_link(line)
        except CannotMeasure:
            refused += 1  # words that lspci does not write: never a width of 0, never a pass
            continue
        device = replace(own.gpus[3], width=width, speed_gts=speed_gts)
        devices = tuple(device if each.address == device.address else each for each in own.devices)
        record = judge_with_pci("pcie.link_width", machine, Pci(devices))
        verdicts.add((file, width, record.verdict.value))
        assert record.decisive[0].part.pci == device.address or record.verdict is Verdict.PASS
    assert verdicts == {("azhpc", 16, "pass"), ("ocidr", 2, "fail"), ("ocidr", 8, "fail"), ("ocidr", 16, "pass")}
    assert refused == 4


# RDMA


def ttar_adapter():
    """The adapter mlx5_0 of the archive, as the probe would bring it from sysfs."""
    lines = ["ports/1/link_layer: Ethernet", "ports/1/netdev: "]
    for entry in re.split(r"^# ttar.*$", corpus("rdma/procfs_mlx5_0_ttar.txt"), flags=re.MULTILINE):
        match = re.search(r"Path: \S+/infiniband/mlx5_0/(\S+)\nLines: 1\n(.*?)(?:EOF)?\n", entry)
        lines += [f"{match[1]}: {match[2]}"] if match else []
    return adapter_of("\n".join(lines))


def test_a_virtual_function_at_25_gbps_is_in_service_and_its_copied_state_is_told():
    machine = Machine.hgx_h100()
    machine.sections["infiniband"] = {"mlx5_0": ttar_adapter()}
    limits = {"rdma.rails": Limit(1, "ports", "a virtual machine"), "rdma.rate_gbps": 25, "rdma.link_layer": None}
    for check in ("rdma.rails", "rdma.port_rate"):
        record = judge_one(check, machine, baseline=limits)
        assert record.verdict is Verdict.PASS, record.message
    # The archive holds "4: ACTIVE" in phys_state, which no kernel writes there.
    record = judge_one("rdma.port_state", machine, baseline=limits)
    assert record.message.startswith("mlx5_0 port 1 (0000:1a:00.0, ibs1): physical state ACTIVE, expected LinkUp")
    machine.sections["infiniband"]["mlx5_0"]["ports"]["1"]["phys_state"] = "5: LinkUp"
    assert judge_one("rdma.port_state", machine, baseline=limits).verdict is Verdict.PASS


def adapter_of(text):
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


def real_node():
    """A node with the adapters of a real H100 node: three rails and the bond of a BlueField-3."""
    machine = Machine.hgx_h100()
    adapters = {name.removeprefix(REAL): adapter_of(corpus(f"rdma/{name}.txt")) for name in REAL_ADAPTERS}
    for number, adapter in enumerate(adapters.values()):
        adapter["pci"] = f"0000:{0x1A + number:02x}:00.0"
    machine.sections["infiniband"] = adapters
    return machine


@pytest.mark.parametrize(
    "check", ["rdma.rails", "rdma.port_state", "rdma.port_rate", "rdma.port_lanes", "rdma.firmware"]
)
@pytest.mark.parametrize("rate", [400, None], ids=["with a rate", "without a rate"])
def test_a_real_node_passes_and_its_bond_is_no_rail(check, rate):
    limits = {"rdma.rails": Limit(3, "ports", "three of eight recorded"), "rdma.rate_gbps": rate}
    record = judge_one(check, real_node(), baseline=limits)
    assert record.verdict is Verdict.PASS, record.message
    assert not any("bond" in finding.part.label for finding in record.findings)


def test_the_management_function_of_a_cloud_is_no_slow_rail():
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
