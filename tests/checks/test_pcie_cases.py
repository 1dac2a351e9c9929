"""What the PCIe checks say of one machine with one fault, word for word, and of the machines that only look faulty."""

from fleet.changes import changes
from fleet.machine import Machine
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, WARN, asserting, of, unread
from support.judging import Case, both, fails, plant

from nodegate.profile import Profile
from nodegate.records.finding import Limit

EIGHT_LANES = Limit(8, "lanes", "AWS g6e")
REPLAYS, CORRECTABLE = {"pcie.replays_max": 80}, {"pcie.aer_correctable_max": 480}
L40S = Machine.pcie_l40s
FULL_CLOCK = [plant.set_gpu(1, key, 1980) for key in ("sm_clock_mhz", "sm_clock_max_mhz")]
BCM5720 = "0000:01:00.0"
DENIED = unread("denied", "EACCES")
ABSENT = unread("missing", "no such file")
IN_VM = both(
    plant.set("system", "dmi.sys_vendor", "Amazon EC2"), plant.set("system", "dmi.product_name", "g6e.48xlarge")
)
ON_METAL = both(IN_VM, plant.set("system", "dmi.product_name", "g4dn.metal"))
PORT, UPLINK, ROOT = "0000:17:01.0", "0000:16:00.0", "0000:15:01.0"  # above GPU 0 of an HGX H100


@changes
def gpu(machine, index, key, value):
    machine.set_pci(machine.gpu_address(index), key, value)


@changes
def nic(machine, number, key, value):
    machine.set_pci(machine.nic_address(number), key, value)


def nic_corrects(count):
    return lambda machine: machine.count_correctable_errors(machine.nic_address(0), count)


@changes
def gpu_link(machine, index, **link):
    machine.set_link(machine.gpu_address(index), **link)


@changes
def nic_link(machine, number, **link):
    machine.set_link(machine.nic_address(number), **link)


@changes
def at_16(machine, *places):
    for address, key in zip(places[::2], places[1::2], strict=True):
        machine.set_pci(address, key, "16.0 GT/s PCIe")


def acs_everywhere(machine):
    for device in machine.sections["pci"]:
        if device["class"] == "0x060400":
            device["acs"] = "001d"


@changes
def every_bridge_at(machine, speed):
    for device in machine.sections["pci"]:
        if device["class"] == "0x060400":
            device["current_link_speed"] = f"{speed} GT/s PCIe"


def uplinks_above_idle_gpus_alone(machine):
    """No NIC is below the switches, and every GPU is idle."""
    below = {device["address"] for device in machine.sections["pci"] if device["class"].startswith("0x02")}
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["address"] not in below]
    for index in range(8):
        machine.set_gpu(index, "utilization_percent", 0)
        machine.set_gpu(index, "sm_clock_mhz", 345)
    every_bridge_at("2.5")(machine)


@changes
def every_gpu_at(machine, width):
    for address in machine.gpu_addresses:
        machine.set_link(address, width=width)


def management_nic_at_x1(machine):
    """A BCM5720 that could use two lanes and uses one, below a root port that could use sixteen."""
    nic = dict(machine.pci(machine.nic_address(0)), address=BCM5720, vendor="0x14e4", device="0x165f", driver="tg3")
    nic |= {"class": "0x020000", "current_link_width": "1", "max_link_width": "2", "parent": "0000:00:1c.0"}
    port = dict(machine.pci("0000:15:01.0"), address="0000:00:1c.0", current_link_width="1")
    machine.sections["pci"] += [nic, port]


def without_bridges(machine):
    machine.sections["pci"] = [device for device in machine.sections["pci"] if device["class"] != "0x060400"]


def nic_in_a_gen4_slot(machine):
    address = machine.nic_address(1)
    machine.set_link(address, speed_gts="16.0")
    machine.set_pci(machine.pci(address)["parent"], "max_link_speed", "16.0 GT/s PCIe")


def uncorrectable(kind, count):
    return gpu(2, f"aer_dev_{kind}", f"Undefined 0\nTOTAL_ERR_{kind.upper()} {count}")


def no_gpu_counts(machine):
    for index in range(8):
        for kind in ("correctable", "nonfatal", "fatal"):
            machine.set_pci(machine.gpu_address(index), f"aer_dev_{kind}", ABSENT)


def counters_kept_by_firmware(machine):
    for device in machine.sections["pci"]:
        for kind in ("correctable", "nonfatal", "fatal"):
            device[f"aer_dev_{kind}"] = ABSENT


OLDER_SWITCH = at_16(UPLINK, "max_link_speed", UPLINK, "current_link_speed", ROOT, "current_link_speed")
SPEED_UNREAD = plant.set_pci(UPLINK, "current_link_speed", unread("denied", "current_link_speed"))
NO_ACS = unread("not supported", "no ACS capability")
ACS_AT_ROOT = plant.set_pci(ROOT, "acs", "001d")
VIRTUAL_FUNCTION = both(nic(0, "current_link_width", "0"), nic(0, "max_link_width", "0"))
ALL_IDLE = both(*(gpu_link(index, speed_gts="2.5") for index in range(8)))
AT_WORK = both(gpu_link(1, speed_gts="2.5"), plant.set_gpu(1, "utilization_percent", 97))
CASES = of("pcie.bridge_speed")(
    Case("every bridge at half its generation", FAIL, every_bridge_at("8.0")),
    Case("one uplink at Gen1", FAIL, plant.set_pci(UPLINK, "current_link_speed", "2.5 GT/s PCIe")),
    Case("healthy: a switch of an older generation below a newer root port", PASS, OLDER_SWITCH),
    Case("healthy: idle GPUs alone below the switches", SKIP, uplinks_above_idle_gpus_alone),
    Case("a bridge whose speed was not read", ERROR, SPEED_UNREAD),
)
CASES += of("pcie.acs")(
    Case("healthy: bridges without ACS", PASS, plant.set_pci(PORT, "acs", NO_ACS)),
    Case("healthy: ACS at a root port, which all traffic of its switch stays below", PASS, ACS_AT_ROOT),
    Case("ACS on everywhere", FAIL, acs_everywhere),
    Case("ACS on everywhere, before a job", WARN, acs_everywhere, profile=Profile.BOOTCHECK),
    Case("ACS in a virtual machine", SKIP, both(acs_everywhere, IN_VM)),
    Case("ACS that needs root", ERROR, plant.set_pci(PORT, "acs", unread("denied", "extended configuration space"))),
)
CASES += of("pcie.devices_answer")(
    Case("a GPU is lost", FAIL, plant.lose_gpu(3)),
    Case("a NIC reads all ff", FAIL, nic(2, "config", "ff" * 64)),
    Case("config space was not read", ERROR, gpu(0, "config", unread("denied", "config"))),
    Case("there is nothing to judge", SKIP, lambda machine: machine.sections.update(pci=[])),
)
CASES += of("pcie.link_width")(
    Case("one GPU at x8", FAIL, gpu_link(3, width=8)),
    Case("one NIC at x8", FAIL, nic_link(2, width=8)),
    Case("a NIC without a link", FAIL, nic(0, "current_link_width", "0")),
    Case("a width that no link has", ERROR, gpu(3, "current_link_width", "999999")),
    Case("a GPU that states no highest width", ERROR, gpu(3, "max_link_width", "0")),
    Case("healthy: a management NIC at x1 of x2", PASS, management_nic_at_x1),
    Case("healthy: a virtual function has no link of its own", PASS, VIRTUAL_FUNCTION),
    Case("the width was not read", ERROR, gpu(0, "current_link_width", DENIED)),
    Case("PCIe was not read", ERROR, fails("pci", "timeout", "10 s")),
)
CASES += of("pcie.link_width", machine=L40S)(
    Case("all GPUs at x8 on bare metal", FAIL, both(ON_METAL, every_gpu_at(8))),
    Case("all GPUs at x8 in a virtual machine", WARN, both(IN_VM, every_gpu_at(8))),
    Case("only one GPU at x8 in a virtual machine", FAIL, both(IN_VM, gpu_link(1, width=8))),
    Case("all GPUs at x8 as the baseline says", PASS, every_gpu_at(8), limits={"pcie.gpu_width": EIGHT_LANES}),
    Case("a GPU at x4 where the baseline says x8", FAIL, gpu_link(1, width=4), limits={"pcie.gpu_width": EIGHT_LANES}),
)
CASES += of("pcie.bridge_width")(
    Case("the uplink of a switch at x4", FAIL, plant.set_pci(UPLINK, "current_link_width", "4")),
    Case("healthy: root port wider than its management NIC", PASS, management_nic_at_x1),
    Case("a narrow GPU is not the bridge's fault", PASS, gpu_link(3, width=8)),
    Case("a bridge was not read", ERROR, plant.set_pci("0000:17:01.0", "current_link_width", DENIED)),
    Case("no bridge is visible", SKIP, without_bridges),
)
CASES += of("pcie.link_speed")(
    Case("the highest speed of an idle GPU was not read", ERROR, gpu(3, "max_link_speed", "garbage")),
    Case("a kernel that has no name for the device's speed (64 GT/s)", ERROR, gpu(3, "max_link_speed", "Unknown")),
    Case("healthy: idle GPUs at 2.5 GT/s", PASS, ALL_IDLE, machine=L40S),
    Case("a GPU at work at 2.5 GT/s", FAIL, AT_WORK),
    Case("a GPU at its highest clock at 2.5 GT/s", FAIL, both(gpu_link(1, speed_gts="2.5"), *FULL_CLOCK)),
    Case("a NIC at 8 GT/s", FAIL, nic_link(1, speed_gts="8.0")),
    Case("a Gen5 NIC in a Gen4 slot", WARN, nic_in_a_gen4_slot),
    Case("the speed was not read", ERROR, nic(0, "current_link_speed", unread("failed", "EIO"))),
)
CASES += of("pcie.uncorrectable_errors")(
    Case("one fatal error", FAIL, uncorrectable("fatal", 1)),
    Case("two non-fatal errors", WARN, uncorrectable("nonfatal", 2)),
    Case("the firmware keeps the counters", SKIP, counters_kept_by_firmware),
    Case("one GPU of eight has no counter", ERROR, gpu(0, "aer_dev_fatal", ABSENT)),
    Case("no GPU has a counter, the NICs have: by design", PASS, no_gpu_counts),
    Case("a counter was not read", ERROR, gpu(0, "aer_dev_fatal", DENIED)),
)
CASES += of("pcie.correctable_errors")(
    Case("one GPU of eight has no counter", ERROR, gpu(0, "aer_dev_correctable", ABSENT), limits=CORRECTABLE),
    Case("without a limit", NOT_JUDGED, limits={"pcie.aer_correctable_max": None}),
)
CASES += of("pcie.correctable_errors", limits=CORRECTABLE)(
    Case("more than the limit", WARN, nic_corrects(481)),
    Case("as many as the limit", PASS, nic_corrects(480)),
    Case("a counter was not read", ERROR, gpu(0, "aer_dev_correctable", DENIED)),
)
CASES += of("pcie.replays")(
    Case("no replays", PASS, limits=REPLAYS),
    Case("more than the limit", WARN, plant.set_gpu(5, "pcie_replays", 4000), limits=REPLAYS),
    Case("the counter was not read", ERROR, plant.set_gpu(5, "pcie_replays", FAILED), limits=REPLAYS),
    Case("without a limit", NOT_JUDGED, limits={"pcie.replays_max": None}),
)
CASES += of("pcie.iommu")(
    Case("it is off", PASS, both(plant.set("system", "cmdline", "ro"), plant.set("system", "iommu_groups", 0))),
    Case("it translates", WARN, plant.set("system", "cmdline", "ro quiet intel_iommu=on")),
    Case("in a virtual machine", SKIP, IN_VM),
    Case("it was not read", ERROR, plant.set("system", "iommu_groups", DENIED)),
)


test_the_check_says = asserting(CASES)
