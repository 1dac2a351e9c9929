"""Harmless things on nodes of the demo fleet that a careless check would take for faults."""

from collections.abc import Callable, Mapping, Sequence

from fleet.load import nccl
from fleet.machine import Machine
from nodegate.measure.nccl.launches import ALL_REDUCE

_HOUR_S = 3600.0
_DAY_S = 86400.0


def shutdown(machine: Machine) -> None:
    """An earlier boot ended as boots do: every link went down."""
    uptime_s = float(machine.sections["system"]["uptime_s"])
    for number, address in enumerate(machine.nic_addresses):
        machine.kernel(f"mlx5_core {address} ibs{number}: Link down", ago_s=uptime_s + 240 - number)


def reseated(machine: Machine) -> None:
    """Before it was reseated, three weeks ago, a NIC had 8 lanes; the node has been started again since."""
    address = machine.nic_address(6)
    machine.kernel(
        f"mlx5_core {address}: 252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at "
        f"{machine.pci(address)['parent']} (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
        ago_s=21 * _DAY_S,
    )


def links_come_up(machine: Machine) -> None:
    """At the start of the node every link goes up, down and up once."""
    uptime_s = float(machine.sections["system"]["uptime_s"])
    for number, address in enumerate(machine.nic_addresses):
        netdev = f"ibs{number}"
        machine.kernel(f"mlx5_core {address} {netdev}: Link down", ago_s=uptime_s - 40 - number)
        machine.kernel(f"mlx5_core {address} {netdev}: Link up", ago_s=uptime_s - 55 - number)


def busy_counters(machine: Machine) -> None:
    """Some corrected errors, as every large machine has them."""
    machine.set_gpu(2, "ecc.aggregate_corrected", 14)
    machine.set_gpu(2, "pcie_replays", 3)
    machine.count_correctable_errors(machine.nic_address(3), 2)
    machine.set_port("mlx5_3", 1, "counters.symbol_error", "4")


def power_capped(machine: Machine) -> None:
    """A GPU at its software power cap, and a link that flapped three days ago until its cable was cleaned."""
    machine.set_gpu(4, "event_reasons", 0x4)
    address = machine.nic_address(1)
    for count in range(5):
        machine.kernel(f"mlx5_core {address} ibs1: Link down", ago_s=3 * _DAY_S + 600 * count)
        machine.kernel(f"mlx5_core {address} ibs1: Link up", ago_s=3 * _DAY_S + 600 * count - 5)


def alarming_words(machine: Machine) -> None:
    """Lines with words such as error, xid and killed that mean nothing."""
    for line in (
        "ACPI BIOS Error (bug): Could not resolve symbol [_SB.PMTT], AE_NOT_FOUND (20230331/psargs-330)",
        'audit: type=1400 audit(1795240000.1:88): apparmor="ALLOWED" operation="exec" profile="xid-report" pid=4410',
        "EDAC MC: Ver: 3.0.0",
    ):
        machine.kernel(line, ago_s=4 * _HOUR_S)


def less_memory(machine: Machine) -> None:
    """The kernel keeps a little more memory for itself (crashkernel) than on the other nodes."""
    meminfo: str = machine.sections["system"]["meminfo"]
    total = int(meminfo.split()[1])
    machine.set("system", "meminfo", meminfo.replace(f"{total} kB", f"{total - 786_432} kB", 1))


def restricted_function(machine: Machine) -> None:
    """The NIC's firmware refuses a register to this function, as it does on many machines: noise."""
    machine.kernel(
        f"mlx5_core {machine.nic_address(0)}: mlx5_cmd_out_err:838:(pid 2113): ACCESS_REG(0x805) op_mod(0x1) failed, "
        "status bad parameter(0x3), syndrome (0x15c356), err(-22)",
        ago_s=5 * _HOUR_S,
    )


def late_clock(machine: Machine) -> None:
    """The clock is 4 ms off, and a disk is half full."""
    machine.set("clock", "adjtimex.offset_us", 4120)
    machine.set("mounts", "usage./scratch.free_bytes", 6_900 << 30)


def disturbed(machine: Machine) -> None:
    """The first all_reduce met something else on the machine; the two that followed are good."""
    machine.under_load(nccl.NAME, nccl.slower(0.82, ALL_REDUCE), _nothing, _nothing)


def _nothing(found: object) -> None:
    """As healthy as it is."""


TRAPS: Mapping[str, Sequence[Callable[[Machine], None]]] = {
    "hgx01": (shutdown,),
    "hgx02": (reseated,),
    "hgx04": (links_come_up,),
    "hgx06": (busy_counters,),
    "hgx09": (power_capped, disturbed),
    "roce01": (alarming_words,),
    "roce03": (less_memory,),
    "roce04": (restricted_function,),
    "roce06": (late_clock,),
}
