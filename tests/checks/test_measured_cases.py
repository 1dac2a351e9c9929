"""What checks say of machines that were under load: from what their programs print to the headline.

The tables of the single measurements go further into each, word for word; here a case says how the headline begins.
"""

import pytest
from fleet.load import after, burn, nccl, rdma
from fleet.machine import Machine
from support.cases import ERROR, FAIL, PASS, SKIP, WARN, asserting, of
from support.judging import Case, judge_one, plant

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.measure.nccl.launches import ALL_REDUCE
from nodegate.measure.registry import is_active

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
CASES = of("counters_log.link_downs")(
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


test_what_a_check_says_of_a_machine_under_load = asserting(CASES)


@pytest.mark.parametrize("check", [check.id for check in suite.checks() if is_active(check.asks_for)])
def test_a_healthy_machine_passes_each_measured_check(check):
    for make, without in ((Machine.hgx_h100, NOT_ON_HGX), (L40S, NOT_ON_L40S)):
        record = judge_one(check, make(), baseline=CONTRACT)
        assert record.verdict is (SKIP if check in without else PASS), record.message
