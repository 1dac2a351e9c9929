"""What the counter checks say when a load adds errors, word for word, and of counters that only look bad."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleet.machine import EPOCH_S, Machine, facts_of
from support import cases
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.counting import CounterCase, judged
from support.judging import both, every_gpu, fails, nvlink, plant

from nodegate.profile import Profile
from nodegate.subjects.counters import Counters

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

# The kernel log while the load ran: what is new fails, what was there before is not told again.
TESTS_TOOK_S = 1200.0
GPU = "NVRM: Xid (PCI:0000:3d:00): "
FAULT_31 = GPU + "31, pid=7, name=python, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS"
NETIR = (
    GPU + "149, NETIR_LINK_EVT {} XC0 i0 Link 01 (0x004f8002 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
)
SWITCH = "nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
MEMORY = "EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:1)"
PCIE = "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (ID)"
NVME = "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"
NIC = "mlx5_core 0000:1a:00.0 ibp26s0"


@dataclass(frozen=True)
class LogCase(cases.Case):
    """What the kernel said, so many seconds after our tests began; `after` changes the node of the second reading."""

    lines: tuple[tuple[str, float], ...] = ()
    after: Callable[[Machine], object] = lambda machine: None

    def record(self):
        before, later = Machine.hgx_h100(), Machine.hgx_h100(epoch_s=EPOCH_S + TESTS_TOOK_S)
        later.set("system", "uptime_s", before.sections["system"]["uptime_s"] + TESTS_TOOK_S)
        for line, seconds in self.lines:
            if seconds < 0:
                before.kernel(line, ago_s=-seconds)
            later.kernel(line, ago_s=TESTS_TOOK_S - seconds)
        self.after(later)
        facts = facts_of(before)
        return cases.judged_with(
            self.check, facts, {"counters": Counters(facts, facts_of(later)), "profile": Profile.DELIVERY}
        )


def said(*lines, at_s=300.0):
    return tuple((line, at_s + number / 2) for number, line in enumerate(lines))


def untimed(machine):
    machine.sections["kernel_log"]["lines"].append(FAULT_31)


def flood(machine):
    machine.set("kernel_log", "dropped", 9000)
    machine.set("kernel_log", "lines", ["2026-11-21T08:30:00.000000+0000 gpu01 kernel: nvidia: something"])
    machine._lines.clear()


REBOOTED = both(*(plant.set("system", *each) for each in (("uptime_s", 200.0), ("boot_id", "00000000-2b1d-4c58"))))
GAP = plant.set("kernel_log", "since_epoch_s", EPOCH_S + 60)
NAMELESS = both(*(plant.set("system", key, FAILED) for key in ("boot_id", "uptime_s")))
for name in ("reaches_back", "xid", "sxid", "link_downs", "faults"):
    CASES += of(f"counters_log.{name}")(
        LogCase("a quiet log", PASS),
        LogCase("a log that cannot be read", ERROR, after=fails("kernel_log", "denied", "not permitted")),
        LogCase("a log that lost the time of our tests", ERROR, after=GAP),
        LogCase("a clock that went back", ERROR, after=lambda machine: vars(machine).update(epoch_s=EPOCH_S - 3600.0)),
    )
CASES += of("counters_log.xid")(
    *(
        LogCase(f"{code} under our own programs", FAIL, said(f"{GPU}{code}, pid=7, name=python, something"))
        for code in (13, 31, 43, 69, 94, 48)
    ),
    LogCase("a fault before our tests", PASS, said(FAULT_31, at_s=-30.0)),
    LogCase("the same words again are a new fault", FAIL, said(FAULT_31, at_s=-300.0) + said(FAULT_31)),
    LogCase("the end of a program of ours", WARN, said(GPU + "45, pid=7, name=nccl, Ch 00000008")),
    LogCase("a consequence with its root", FAIL, said(FAULT_31, GPU + "43, pid=7, name=python, Ch 00000010")),
    LogCase("NVLink 5: non-fatal", WARN, said(NETIR.format("Nonfatal"))),
    LogCase("NVLink 5: fatal", FAIL, said(NETIR.format("Fatal   "))),
    LogCase("lines without a time are told apart by their count", FAIL, after=untimed),
    LogCase("a log of which the first lines did not fit", ERROR, after=flood),
    LogCase("what was found stays a failure where the log has a gap", FAIL, said(FAULT_31), GAP),
)
CASES += of("counters_log.sxid")(
    LogCase("fatal under load", FAIL, said(SWITCH)), LogCase("fatal before it", PASS, said(SWITCH, at_s=-300.0))
)
CASES += of("counters_log.link_downs")(
    LogCase("one link down is one too many", FAIL, said(f"{NIC}: Link down") + said(f"{NIC}: Link up", at_s=303.0))
)
CASES += of("counters_log.faults")(
    LogCase("of the host before our tests", PASS, said(MEMORY, at_s=-30.0)),
    *(LogCase(f"{line.split()[0]} under load", FAIL, said(line)) for line in (MEMORY, PCIE, NVME)),
    LogCase("all of them", FAIL, said(MEMORY, PCIE, NVME)),
)
CASES += of("counters_log.reaches_back")(
    LogCase("a node that rebooted under load", FAIL, after=REBOOTED),
    LogCase("a boot that nobody can name", ERROR, after=NAMELESS),
)


test_case = asserting(CASES)


def test_a_full_counter_hides_no_error_of_another_counter():
    case = next(case for case in CASES if case.name.startswith("full since before the load: a link"))
    found = judged(replace(case, during=port("port_rcv_errors", "60000"))).findings
    seen = {finding.quantity: finding.verdict for finding in found if finding.part.is_called(PORT1)}
    assert (seen["link_downed under load"], seen["port_rcv_errors under load"]) == (NOT_JUDGED, WARN)
