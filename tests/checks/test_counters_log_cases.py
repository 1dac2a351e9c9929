"""The kernel log while the load ran: what is new fails, what was there before is not told again."""

from collections.abc import Callable
from dataclasses import dataclass

from fleet.machine import EPOCH_S, Machine, facts_of
from support import cases
from support.cases import ERROR, FAIL, FAILED, PASS, WARN, asserting, of
from support.judging import both, fails, plant

from nodegate.profile import Profile
from nodegate.subjects.counters import Counters

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
CASES = ()
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

test_the_check_says = asserting(CASES)
