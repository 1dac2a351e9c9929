"""A node made around the GPUs of an nvidia-smi recording: PCIe and the driver's files say what nvidia-smi says."""

from dataclasses import fields, replace

from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from nodegate import suite
from nodegate.errors import NotJudged
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.probe.driver import Driver, DriverGpu
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.unknown import Known, Unknown, Why

SUBJECTS = ("gpu", "idle", "power", "clocks", "ecc", "gsp", "nvlink", "fabric", "pcie")
GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0}  # PCIe generation -> GT/s
NOT_SHOWN = Unknown(Why.MISSING, "nvidia-smi does not show it")
SLOT = PciDevice(
    **dict.fromkeys((field.name for field in fields(PciDevice)), NOT_SHOWN)
    | {"class_code": 0x060400, "vendor": 0x8086, "device": 0x352A, "width": 16, "width_max": 16}
    | {"driver": "pcieport", "parent": "", "answers": True, "aer": AerCounters(*[NOT_SHOWN] * 3)}
)


def facts_around(gpus, *, vm, gens=None):
    """Every fact that a GPU-side check may ask for."""
    machine = Machine.pcie_l40s()
    if vm:
        machine.set("system", "dmi.sys_vendor", "Amazon EC2")
        machine.set("system", "dmi.product_name", "g5.xlarge")
    machine.set("kernel_log", "lines", [])
    facts = facts_of(machine)
    around: dict[str, object] = {name: facts.get(name) for name in ("host", "services", "kernel_log", "jobs")}
    return around | {"gpus": gpus, "pci": Pci(_devices(gpus, gens)), "driver": _driver(gpus)}


def judge_smi(gpus, profile, *, platform="", vm=False, limits=None, gens=None):
    """What every GPU-side check of the profile says of these GPUs: check id -> record.

    `gens`: their PCIe generations as recorded; else each link is at the best of GPU and slot.
    """
    found = {"gpus": len(gpus.devices)} | ({"platform": platform} if platform else {})
    node = Node("gpu01", expected=found, origin="hosts.yaml:3")
    context = facts_around(gpus, vm=vm, gens=gens)
    context |= {"node": node, "profile": profile, "baseline": baseline_of(_Facts(context), node, limits)}

    def resolve(name):
        if name == "fleet":
            raise NotJudged("alone")
        return context[name]

    mine = [check for check in suite.checks() if check.id.partition(".")[0] in SUBJECTS]
    return {check.id: judge(check, resolve, node.name) for check in mine if profile.includes(check.tier)}


class _Facts:
    """What `baseline_of` asks of a node's facts."""

    def __init__(self, known):
        self._known = known

    def get(self, name):
        return self._known[name]


def _devices(gpus, gens):
    found = []
    for gpu in gpus.devices:
        now, slot_speed, own = _speeds(gpu, gens)
        vendor, number = ("10de", "0000") if isinstance(gpu.pci_id, Unknown) else gpu.pci_id.split(":")
        slot = replace(SLOT, address=f"00{gpu.index:02x}:ff:00.0", speed_gts=slot_speed, speed_max_gts=slot_speed)
        card = replace(
            SLOT,
            address=str(gpu.address),
            class_code=0x030200,
            vendor=0x10DE if vendor == "00de" else int(vendor, 16),  # masked in one recording
            device=int(number, 16),
            width=gpu.link_width,
            width_max=gpu.link_width_max,
            speed_gts=now,
            speed_max_gts=own,
            driver="nvidia",
            parent=slot.address,
        )
        found += [slot, card]
    return tuple(found)


def _speeds(gpu, gens):
    """GT/s now, of the slot, and of the GPU itself."""
    of_links: tuple[Known[int], ...] = (gpu.link_gen_max,) * 3 if gens is None else gens
    now, slot, best = (gen if isinstance(gen, Unknown) else GTS[gen] for gen in of_links)
    return now, slot, best


def _driver(gpus):
    entries = tuple(DriverGpu(str(gpu.address), gpu.uuid, gpu.gsp_firmware, excluded=False) for gpu in gpus.devices)
    return Driver(
        loaded=True,
        version=gpus.driver_version,
        open_kernel_module=NOT_SHOWN,
        gpus=entries,
        device_nodes={f"nvidia{gpu.index}": "ok" for gpu in gpus.devices},
    )
