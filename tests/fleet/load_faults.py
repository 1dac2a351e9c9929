"""The faults of the demo fleet that only load brings to light, each with what must be found of it."""

from collections.abc import Mapping
from typing import Any

from fleet.load import after, burn, copies, groups, nccl, rdma
from fleet.load.plan import Change
from fleet.machine import Machine
from fleet.planted import found
from nodegate.demo.verify import PlantedFault
from nodegate.measure.copies.document import OUT
from nodegate.measure.nccl.launches import ALL_REDUCE, LAUNCHES, RING

_THRICE = 3  # a suspect is measured twice more
_HOT_C = 24.0
_IDLE_DROP, _BRAKE = 0x8, 0x80  # NVML's bits of the reasons why a clock is held down: hardware slowdown, power brake
_GOOD_GBPS = 392.0
_SLOW_IN_GROUPS = tuple(f"nccl_groups.{name} fail" for name in ("all_reduce", "collectives", "share_of_rate", "wide"))
_SOFTWARE_HEAT, _HARDWARE_HEAT = 0x20, 0x40


def hot_gpu(machine: Machine) -> list[PlantedFault]:
    def heat(document: dict[str, Any]) -> None:
        reasons = (_IDLE_DROP, _SOFTWARE_HEAT, _HARDWARE_HEAT)
        burn.slowed(document, 2, 0.88, reasons=reasons, clock_mhz=1455.0, heat_c=_HOT_C)
        document["gpus"][2]["samples"]["violations_ns"]["thermal"] = 212_400_000_000

    machine.under_load(burn.NAME, *[heat] * _THRICE)
    return found(
        machine,
        "F08",
        "GPU 2 is 12 % slower under load: it is too hot",
        "burn.throughput fail GPU 2",
        "burn.node_spread warn GPU 2",
        "burn.clock_reasons burn.clock burn.temperature fail GPU 2",
    )


def brake_under_load(machine: Machine) -> list[PlantedFault]:
    machine.under_load(burn.NAME, *[braked(1)] * _THRICE)
    return found(machine, "F08", "GPU 1 is held down by the power brake under load", *brake_findings(1))


def braked(index: int) -> Change:
    return lambda document: burn.slowed(document, index, 0.26, reasons=(_IDLE_DROP, _BRAKE), clock_mhz=500.0)


def brake_findings(index: int) -> list[str]:
    return [
        f"burn.throughput fail GPU {index}",
        f"burn.node_spread warn GPU {index}",
        f"burn.clock_reasons burn.clock fail GPU {index}",
    ]


def wrong_results(machine: Machine) -> list[PlantedFault]:
    def corrupt(document: dict[str, Any]) -> None:
        first = {"iteration": 18211, "at_s": 112.4, "row": 5120, "column": 640, "words": 3}
        document["gpus"][4]["phases"][0] |= {"mismatches": 3, "first_mismatch": first}

    machine.under_load(burn.NAME, corrupt)
    return found(machine, "F03", "GPU 4 computes wrong results and says nothing", "burn.results fail GPU 4")


def memory_errors(machine: Machine) -> list[PlantedFault]:
    machine.under_load(burn.NAME, lambda document: burn.counting(document, 6, "ecc_corrected", 310))
    machine.during_load(after.gpu_counts(6, volatile_corrected=3720, aggregate_corrected=3720))
    return found(
        machine, "F03", "GPU 6 corrects thousands of memory errors under load", "burn.ecc counters.ecc warn GPU 6"
    )


def slow_nic(machine: Machine) -> list[PlantedFault]:
    return nic_findings(machine, 4, 196.4, "F07", "mlx5_4 carries half of its rate")


def nic_findings(machine: Machine, number: int, gbps: float, mode: str, what: str) -> list[PlantedFault]:
    """A NIC that reaches no more than this with any partner, and what must be found of it.

    Inside the node its neighbour is slow too, for it has no other partner there, and is not blamed.
    """
    name = f"mlx5_{number}"
    machine.under_load(rdma.NAME, *[rdma.slower(name, gbps)] * _THRICE)
    machine.under_load(groups.NAME, groups.slower(gbps / _GOOD_GBPS))
    return found(
        machine,
        mode,
        what,
        f"rdma_bandwidth.write rdma_bandwidth.read rdma_bandwidth.share_of_rate rdma_bandwidth.inside fail {name}",
        f"rdma_bandwidth.gpu_memory rdma_bandwidth.both_at_once fail {name}",
        *_SLOW_IN_GROUPS,
    )


def bad_cable(machine: Machine) -> list[PlantedFault]:
    machine.during_load(after.port_counts("mlx5_6", symbol_error=914, link_downed=1))
    machine.during_load(after.link_goes_down(6, "ibs6"))
    return found(
        machine,
        "F06",
        "mlx5_6 counts symbol errors under load and loses its link once",
        "counters.nic fail mlx5_6 port 1",
        f"counters_log.link_downs fail {machine.nic_address(6)}",
    )


def link_trains_down(machine: Machine) -> list[PlantedFault]:
    machine.under_load(copies.NAME, *[copies.trained_down(5, 8)] * _THRICE)
    return found(
        machine,
        "F05",
        "GPU 5 copies at half of its rate: its link comes down to x8 under load",
        "copies.host_to_device copies.host_both_ways copies.device_to_host copies.link copies.nvbandwidth fail GPU 5",
    )


def lost_words(machine: Machine) -> list[PlantedFault]:
    machine.under_load(copies.NAME, copies.words_lost(3, OUT, 2))
    return found(machine, "F03", "data of GPU 3 arrives wrong at the host", "copies.data fail GPU 3")


def no_nvls(machine: Machine) -> list[PlantedFault]:
    machine.under_load(nccl.NAME, *[nccl.without_nvls] * _THRICE)
    return found(machine, "F12", "all_reduce runs without NVLS", "nccl.nvls fail NVLS")


def slow_all_reduce(machine: Machine) -> list[PlantedFault]:
    machine.under_load(nccl.NAME, *[nccl.slower(0.94, ALL_REDUCE)] * _THRICE)
    return found(machine, "F09", "all_reduce is 6 % slower than the fleet's", "nccl.all_reduce fail")


def slow_collectives(machine: Machine, share: float, mode: str, what: str) -> list[PlantedFault]:
    machine.under_load(nccl.NAME, *[nccl.slower(share)] * _THRICE)
    machine.under_load(groups.NAME, groups.slower(share))
    return found(machine, mode, what, "nccl.all_reduce fail", "nccl.collectives fail", *_SLOW_IN_GROUPS)


def hung_all_reduce(machine: Machine) -> list[PlantedFault]:
    machine.under_load(nccl.NAME, *[nccl.hung] * _THRICE)
    machine.under_load(groups.NAME, groups.hangs)
    rest = [launch.what for launch in LAUNCHES]
    unknown = [f"nccl.{check} error {what}" for check in ("data", "complete") for what in rest]
    return found(
        machine,
        "F21",
        "all_reduce hangs until its time limit",
        f"nccl.hang fail {ALL_REDUCE}",
        f"nccl.hang fail {RING}",
        *(f"nccl.hang error {what}" for what in rest if what not in {ALL_REDUCE, RING}),
        *unknown,
        "nccl.all_reduce error all_reduce",
        "nccl.collectives error",
        "nccl.version error NCCL",
        "nccl_groups.hang fail",
        "nccl_groups.* error",
    )


def no_nccl_tests(machine: Machine) -> list[PlantedFault]:
    tools: Mapping[str, str] = machine.sections["software"]["tools"]
    machine.set("software", "tools", {**tools, "all_reduce_perf": ""})
    machine.under_load(nccl.NAME, *[nccl.no_tool] * _THRICE)
    machine.under_load(groups.NAME, groups.no_tool)
    return found(machine, "F24", "nccl-tests is not installed", "nccl.* error", "nccl_groups.* error")
