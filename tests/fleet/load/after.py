"""A made-up node once more after the load: time has passed, and what the load did is in its counters and its log."""

from collections.abc import Mapping
from typing import Any

from fleet.changes import changes
from fleet.load.plan import LOAD_S
from fleet.machine import Machine
from nodegate.run.campaign import COUNTER_SECTIONS


def document_after(machine: Machine) -> dict[str, Any]:
    """What the probe reads after the load: the sections with counters, as a run asks for them."""
    later = machine.later(LOAD_S)
    for happening in machine.happenings:
        happening(later)
    document = later.document()
    document["sections"] = {name: document["sections"][name] for name in COUNTER_SECTIONS}
    return document


@changes
def port_counts(machine: Machine, /, device: str, **added: int) -> None:
    """A port counts so much more: `port_counts("mlx5_1", symbol_error=900)`."""
    port: Mapping[str, Any] = machine.sections["infiniband"][device]["ports"]["1"]
    for name, count in added.items():
        folder = "counters" if name in port["counters"] else "hw_counters"
        machine.set_port(device, 1, f"{folder}.{name}", str(int(port[folder][name]) + count))


@changes
def link_goes_down(machine: Machine, number: int, netdev: str) -> None:
    """The link of mlx5_<number> goes down under load and comes up again."""
    address = machine.nic_address(number)
    machine.kernel(f"mlx5_core {address} {netdev}: Link down", ago_s=240.0)
    machine.kernel(f"mlx5_core {address} {netdev}: Link up", ago_s=233.0)
    before = int(machine.sections["netdev"][netdev]["carrier_changes"])
    machine.set_netdev(netdev, "carrier_changes", str(before + 2))


@changes
def gpu_counts(machine: Machine, /, index: int, **added: int) -> None:
    """A GPU counts so many more memory errors: `gpu_counts(2, volatile_corrected=5200)`."""
    gpu = next(gpu for gpu in machine.sections["nvml"]["gpus"] if gpu["index"] == index)
    for name, count in added.items():
        machine.set_gpu(index, f"ecc.{name}", gpu["ecc"][name] + count)
