"""What the counter checks say when a load adds errors, word for word, and of counters that only look bad."""

from dataclasses import replace

from fleet.machine import Machine
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.counting import CounterCase, judged
from support.judging import every_gpu, fails, nvlink, plant

AFTER_S = 1_795_249_000  # between the two readings
L40S = Machine.pcie_l40s
PORT1 = "mlx5_1 port 1 (0000:1a:00.0, ibs1)"
ABSENT = unread("not supported", "NVML 3")


def gpu(path, value):
    return plant.set_gpu(2, path, value)


def link(key, value):
    return nvlink(2, 7, key, value)


def port(counter, value, folder="counters"):
    return plant.set_port("mlx5_1", 1, f"{folder}.{counter}", value)


FULL = port("link_downed", "255")


def from_to(counter, before, after, folder="counters"):
    return {"before": port(counter, before, folder), "during": port(counter, after, folder)}


def no_port_counters(machine):
    for folder in ("counters", "hw_counters"):
        machine.sections["infiniband"]["mlx5_1"]["ports"]["1"][folder] = {}


def aer(kind, count):
    total = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}[kind]
    return lambda machine: machine.set_pci(machine.gpu_address(2), f"aer_dev_{kind}", f"TOTAL_ERR_{total} {count}")


def of_gpu_2(key, value):
    return lambda machine: machine.set_pci(machine.gpu_address(2), key, value)


def firmware_keeps_aer(machine):
    for device in machine.sections["pci"]:
        for kind in ("correctable", "nonfatal", "fatal"):
            device[f"aer_dev_{kind}"] = unread("missing", "no such file")


no_fatal_count = of_gpu_2("aer_dev_fatal", unread("missing", "no such file"))


def flap(machine):
    name = machine.sections["infiniband"]["mlx5_1"]["ports"]["1"]["netdev"]
    before = int(machine.sections["netdev"][name]["carrier_changes"])
    machine.set_netdev(name, "carrier_changes", str(before + 2))


SEVENTY_BEFORE = gpu("ecc.volatile_corrected", 70)
OVERRUN = port("excessive_buffer_overrun_errors", "15")
FILLED_UP = from_to("symbol_error", "65530", "65535")
RESTARTS = from_to("roce_slow_restart", "131", "90000", "hw_counters")
CASES = of("counters.devices")(
    CounterCase("nothing changes", PASS),
    CounterCase("a GPU falls off the bus", FAIL, plant.lose_gpu(2)),
    CounterCase("an adapter is gone", FAIL, lambda machine: machine.sections["infiniband"].pop("mlx5_1")),
    CounterCase(
        "a GPU comes back", WARN, before=lambda machine: machine.remove_gpu(7) if machine.epoch_s < AFTER_S else None
    ),
    CounterCase("the probe could not look", ERROR, fails("pci", "timeout", "10 s")),
)
CASES += of("counters.ecc")(
    CounterCase("nothing is added", PASS),
    CounterCase("old errors", PASS, before=gpu("ecc.volatile_uncorrected", 4)),
    CounterCase("uncorrected", FAIL, gpu("ecc.volatile_uncorrected", 2)),
    CounterCase("uncorrected in SRAM", FAIL, gpu("ecc.aggregate_sram_uncorrected", 1)),
    CounterCase("very many corrected", WARN, gpu("ecc.volatile_corrected", 5000)),
    CounterCase("a few corrected", PASS, gpu("ecc.volatile_corrected", 40)),
    CounterCase("set to zero meanwhile", ERROR, gpu("ecc.volatile_corrected", 1), before=SEVENTY_BEFORE),
    CounterCase("not told after", ERROR, gpu("ecc.volatile_uncorrected", FAILED)),
    CounterCase("no ECC at all", SKIP, before=every_gpu("ecc", ABSENT)),
    CounterCase("a restart", ERROR, plant.set("system", "boot_id", "00000000-0000-4000-8000-000000000002")),
)
CASES += of("counters.remapped_rows")(
    CounterCase("nothing is replaced", PASS),
    CounterCase("old rows", PASS, before=gpu("remapped_rows", [1, 2, 0, 0])),
    CounterCase("a row waits for a reset", FAIL, gpu("remapped_rows", [0, 1, 1, 0])),
    CounterCase("a replacement fails", FAIL, gpu("remapped_rows", [0, 0, 0, 1])),
    CounterCase("replaced early", WARN, gpu("remapped_rows", [1, 0, 0, 0])),
    CounterCase("not told", ERROR, gpu("remapped_rows", FAILED)),
)
CASES += of("counters.nvlink")(
    CounterCase("nothing is added", PASS),
    CounterCase("old errors", PASS, before=link("replay", 3)),
    CounterCase("a replay", FAIL, link("replay", 1)),
    CounterCase("CRC errors that are corrected", PASS, link("crc", 900)),
    CounterCase("a storm of CRC errors", FAIL, link("crc", 90_000)),
    CounterCase("not told after", ERROR, link("recovery", FAILED)),
    CounterCase("a platform without", SKIP, machine=L40S),
)
CASES += of("counters.pcie_replays")(
    CounterCase("no replays", PASS),
    CounterCase("old replays", PASS, before=gpu("pcie_replays", 70)),
    CounterCase("as many as the bit error rate allows", PASS, gpu("pcie_replays", 310)),
    CounterCase("more", FAIL, gpu("pcie_replays", 400)),
    CounterCase("not told after", ERROR, gpu("pcie_replays", FAILED)),
)
CASES += of("counters.pcie_errors")(
    CounterCase("no PCIe errors", PASS),
    CounterCase("old PCIe errors", PASS, before=aer("nonfatal", 3)),
    CounterCase("corrected ones", WARN, aer("correctable", 2)),
    CounterCase("a fatal one", FAIL, aer("fatal", 1)),
    CounterCase("the firmware keeps them", SKIP, before=firmware_keeps_aer),
    CounterCase("one GPU of eight has no counter, before and after", ERROR, no_fatal_count, before=no_fatal_count),
    CounterCase("not told after", ERROR, of_gpu_2("aer_dev_fatal", unread("timeout", "2 s"))),
)


def efa(count):
    return lambda machine: machine.sections["infiniband"]["mlx5_1"]["ports"]["1"]["hw_counters"].update(
        rdma_write_wr_err=count
    )


CASES += of("counters.nic")(
    CounterCase("healthy, with old errors", PASS),
    CounterCase("a link that went down", FAIL, **from_to("link_downed", "250", "253")),
    CounterCase("full since before the load: a link that goes down cannot be seen", NOT_JUDGED, before=FULL),
    CounterCase("full since before the load, as that of a healthy port in service", NOT_JUDGED, before=OVERRUN),
    CounterCase("full on a RoCE port, whose network device counts its flaps", NOT_JUDGED, before=FULL, machine=L40S),
    CounterCase("few symbol errors, but the counter came to its full scale and counts no further", ERROR, **FILLED_UP),
    CounterCase("symbol errors above the bit error rate", FAIL, port("symbol_error", "21")),
    CounterCase("symbol errors within it", PASS, port("symbol_error", "20")),
    CounterCase("many receive errors", WARN, port("port_rcv_errors", "60000")),
    CounterCase("RoCE slow restarts", WARN, **RESTARTS, machine=L40S),
    CounterCase("writes failed", WARN, efa("6"), before=efa("4"), machine=L40S),
    CounterCase("a flap of a RoCE port", FAIL, flap, machine=L40S),
    CounterCase("set to zero meanwhile", ERROR, port("symbol_error", "0"), before=port("symbol_error", "9")),
    CounterCase("no counters at all", ERROR, before=no_port_counters),
)


test_case = asserting(CASES)


def test_a_full_counter_hides_no_error_of_another_counter():
    (case,) = [
        case for case in CASES if case.name == "full since before the load: a link that goes down cannot be seen"
    ]
    found = judged(replace(case, during=port("port_rcv_errors", "60000"))).findings
    seen = {finding.quantity: finding.verdict for finding in found if finding.part.is_called(PORT1)}
    assert (seen["link_downed under load"], seen["port_rcv_errors under load"]) == (NOT_JUDGED, WARN)
