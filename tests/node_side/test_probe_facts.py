"""The two halves of the probe fit together: what the node side sends becomes typed facts on the controller's side."""

from pathlib import Path

import pytest
from support.payload import run_probe

from lab.nodes.tree import hgx_h100
from lab.nvml import scenario as nvml
from lab.nvml.scenario import Scenario, healthy_h100
from nodegate.facts import NodeFacts
from nodegate.probe.collect import decode
from nodegate.unknown import Unknown

XID = "NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus."


def facts_of(folder: Path, scenario: Scenario, **limits_s: float) -> NodeFacts:
    tree = hgx_h100(folder / "node")
    tree.file("/dev/kmsg", f"4,1,5000000,-;{XID}\n")
    variables = nvml.environment(scenario.write(folder / "scenario.conf"))
    return NodeFacts(decode(run_probe(root=tree.root, environment=variables, limits_s=limits_s).raw))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> NodeFacts:
    return facts_of(tmp_path_factory.mktemp("healthy"), healthy_h100())


def test_every_reading_of_a_healthy_gpu_is_known(healthy: NodeFacts) -> None:
    not_on_hopper = {"nvlink5", "retired_single_bit", "retired_double_bit", "retired_pending"}
    not_told = {"memory_temperature_limit_c"}
    assert len(healthy.gpus.devices) == 8
    for gpu in healthy.gpus.devices:
        unknown = {name for name, value in vars(gpu).items() if isinstance(value, Unknown)}
        assert unknown == not_on_hopper | not_told
        assert gpu.lost is None
        assert isinstance(gpu.nvlinks, tuple)
        assert {link.up for link in gpu.nvlinks} == {True}
    assert (healthy.gpus.devices[1].address, healthy.gpus.devices[1].pci_id) == ("0000:3b:00.0", "10de:2330")


def test_adapters_driver_and_log_are_read(healthy: NodeFacts) -> None:
    assert next(device.address for device in healthy.rdma.devices) == "0000:14:00.0"
    assert {port.rate_gbps for port in healthy.rdma.ports} == {400.0}
    assert healthy.driver.version == "550.163.01"
    assert set(healthy.driver.device_nodes.values()) == {"ok"}
    assert [line.text for line in healthy.kernel_log.lines] == [XID]
    assert healthy.mounts.by_path["/"].type == "ext4"
