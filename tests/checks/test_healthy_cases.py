"""What each check says of a healthy HGX H100, of one without the reading of a check, and of machines under load."""

import pytest
from fleet.load import after, burn, nccl, rdma
from fleet.machine import Machine
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, fails, gpu, judge_one, plant

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.measure.nccl.launches import ALL_REDUCE
from nodegate.measure.registry import is_active


def failing(reading):
    return gpu(3, reading, unread("failed", "NVML 999: Unknown Error"))


def switch_without_config(machine):
    switch = next(device for device in machine.sections["pci"] if device["class"] == "0x068000")
    switch["config"] = unread("failed", "EIO")


NO_LOG = fails("kernel_log", "denied", "/dev/kmsg: Operation not permitted")
OF_A_GPU = {
    "clocks.memory_max": "memory_clock_max_mhz",
    "clocks.violations": "violation_ns",
    "ecc.remapped_rows": "remapped_rows",
    "ecc.remapped_rows_new": "remapped_rows",
    "gpu.persistence": "persistence_mode",
    "gpu.compute_mode": "compute_mode",
    "gpu.mig": "mig_mode",
    "gsp.version": "gsp_firmware",
    "power.enforced": "power_limit_enforced_mw",
}
OF_THE_LOG = (
    *("gpu_driver", "host_faults", "memory", "nic_errors"),
    *("nic_flaps", "pcie_bandwidth", "pcie_errors", "storage"),
)
CASES = (
    *(Case("the reading fails", ERROR, failing(reading), check=check) for check, reading in OF_A_GPU.items()),
    *of("fabric.nvswitches")(Case("a switch's configuration space cannot be read", ERROR, switch_without_config)),
    *(Case("the log cannot be read", ERROR, NO_LOG, check=f"kernel_log.{name}") for name in OF_THE_LOG),
)

# What has no limit there, nobody asked for, or takes more nodes.
NO_LIMIT = ("contract.gpudirect", "contract.nccl_unset", "drift.same_as_fleet", "gsp.fleet", "host.memory_size")
NOT_HERE = dict.fromkeys(NO_LIMIT, NOT_JUDGED) | dict.fromkeys(
    (
        *("ecc.retired_pages", "fabric.imex", "fabric.imex_domain", "fabric.one_domain", "fabric.summary"),
        *("gpu.recovery_action", "host.mounts", "host.ports", "lemons.fails_again", "nvlink.bit_errors"),
        *("ordered.parts", "ordered.serials", "ordered.settings", "ordered.versions", "platform.serial"),
        *("rdma.gid_index", "rdma.gids", "rdma.mtu", "software.required", "upkeep.written"),
    ),
    SKIP,
)
HEALTHY = tuple(
    Case("healthy", NOT_HERE.get(check.id, PASS), check=check.id)
    for check in suite.checks()
    if not is_active(check.asks_for)
)
# Machines that were under load; the tables of the single measurements go further into each
L40S = Machine.pcie_l40s
BLOCKED = CannotMeasure("blocked by gpu.lost: GPU 3 is lost", next_step="mend that first, then run again")
# What made-up machines do not have: perftest with CUDA, NVLS and NVLinks of PCIe cards.
NOT_ON_HGX = {"nccl_groups.nvlink_between"}
CONTRACT = {  # what nothing asks for is not judged
    "contract.event_reasons_percent": 100,
    "contract.temperature_spread_c": 30,
    "contract.temperature_c": 95,
    "contract.burn_h": 0.1,
}
NOT_ON_L40S = NOT_ON_HGX | {"rdma_bandwidth.gpu_memory", "nccl.nvls", "counters.nvlink", "burn.memory_temperature"}


def braked(document):
    burn.slowed(document, 1, 0.26, reasons=(8, 128), clock_mhz=500.0)


def corrupt(machine):
    def change(document):
        document["gpus"][4]["phases"][0]["mismatches"] = 3

    machine.under_load(burn.NAME, change)


AT_FIRST = plant.under_load(nccl.NAME, nccl.slower(0.8, ALL_REDUCE), *[lambda found: None] * 2)
CASES += of("counters_log.link_downs")(
    Case("a link that goes down once", FAIL, plant.during_load(after.link_goes_down(6, "ibs6")))
)
CASES += of("burn.results")(Case("silent data corruption", FAIL, corrupt))
CASES += of("burn.complete")(Case("blocked by the gate", ERROR, plant.not_measured(burn.NAME, BLOCKED)))
CASES += of("burn.clock")(
    Case("a power brake on a card without NVLink", FAIL, plant.under_load(burn.NAME, braked), machine=L40S)
)
CASES += of("nccl.nvls")(Case("NVLS is off", FAIL, plant.under_load(nccl.NAME, nccl.without_nvls)))
CASES += of("nccl.hang")(Case("a hang", FAIL, plant.under_load(nccl.NAME, nccl.hung)))
CASES += of("nccl.all_reduce")(
    Case("no nccl-tests", ERROR, plant.under_load(nccl.NAME, nccl.no_tool)),
    Case("healthy: disturbed at first, well twice more", PASS, AT_FIRST),
)
CASES += of("rdma_bandwidth.share_of_rate")(
    Case("a NIC at half of its rate", FAIL, plant.under_load(rdma.NAME, *[rdma.slower("mlx5_4", 196.4)] * 3))
)
CASES += of("counters.nic")(
    Case("symbol errors under load", FAIL, plant.during_load(after.port_counts("mlx5_6", symbol_error=914))),
    Case("healthy: few symbol errors under load", PASS, plant.during_load(after.port_counts("mlx5_6", symbol_error=9))),
)
CASES += of("counters.ecc")(
    Case("corrected memory errors under load", WARN, plant.during_load(after.gpu_counts(6, volatile_corrected=3720)))
)


test_case = asserting(CASES, HEALTHY)


@pytest.mark.parametrize("check", [check.id for check in suite.checks() if is_active(check.asks_for)])
def test_a_healthy_machine_passes_each_measured_check(check):
    for make, without in ((Machine.hgx_h100, NOT_ON_HGX), (L40S, NOT_ON_L40S)):
        record = judge_one(check, make(), baseline=CONTRACT)
        assert record.verdict is (SKIP if check in without else PASS), record.message
