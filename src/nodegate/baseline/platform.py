"""Which platform a node is: recognised by its GPUs and switches, never by a count that a fault may change."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nodegate.baseline.baseline_file import BaselineFile
from nodegate.probe.gpu import Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import Pci
from nodegate.unknown import Unknown

_SHARES = (1, 2, 4)  # of the GPUs of a board, as clouds sell them: with any other number one is missing
# What holds for a board as a whole, and not for a part of it.
OF_THE_WHOLE = ("gpu.count", "nvlink.count", "fabric.", "rdma.rails", "rdma.rate_gbps", "memory.peer_", "nccl.")


@dataclass(frozen=True)
class Seen:
    """The hardware by which a platform is recognised. `nvswitch` is None if PCIe could not be read.

    `system` is "vendor product" of DMI, `virtual` whether it may be a virtual machine: it says so, or there is no DMI.
    """

    gpu_pci_ids: tuple[str, ...]  # one for each GPU
    nvswitch: bool | None
    system: str = ""
    virtual: bool = False

    def __str__(self) -> str:
        if not self.gpu_pci_ids:
            return "no NVIDIA GPU seen on PCIe or by NVML"
        counted = sorted(Counter(self.gpu_pci_ids).items())
        return "GPU PCI ids seen: " + ", ".join(f"{count} x {pci_id}" for pci_id, count in counted)


@dataclass(frozen=True)
class Detected:
    """The platform that was recognised, or "" and the reason. `part`: the machine has some of its GPUs, by design."""

    name: str
    reason: str = ""
    part: bool = False


def look(gpus: Gpus | None, pci: Pci | None, host: Host | None = None) -> Seen:
    """The hardware in the node's facts: PCIe first, which sees GPUs that the driver has lost; NVML if it shows more."""
    on_pcie = tuple(device.pci_id for device in pci.gpus) if pci is not None else ()
    devices = gpus.devices if gpus is not None else ()
    by_nvml = tuple(gpu.pci_id for gpu in devices if not isinstance(gpu.pci_id, Unknown))
    nvswitch = bool(pci.nvswitches) if pci is not None else None
    seen = on_pcie if len(on_pcie) >= len(by_nvml) else by_nvml
    if host is None:
        return Seen(seen, nvswitch)
    words = [each for each in (host.vendor, host.product) if not isinstance(each, Unknown)]
    return Seen(seen, nvswitch, " ".join(words), not words or host.is_virtual)


def detect(seen: Seen, platforms: Iterable[BaselineFile]) -> Detected:
    """The one platform that the hardware fits.

    A card of another model among many does not change the platform: more than half of the GPUs decide. If one
    GPU model is used on several boards, NVSwitches distinguish them; platforms with fewer GPUs than were seen
    are ruled out. If several are left, the platform is unknown: it is never guessed.

    A virtual machine is given one, two or four GPUs of a board: no fault, and no board of four either.
    """
    model, count = next(iter(Counter(seen.gpu_pci_ids).most_common(1)), ("", 0))
    if 2 * count <= len(seen.gpu_pci_ids):
        return Detected("", f"platform unknown ({seen})")
    fitting = [each for each in platforms if each.match and model in each.match.gpu_pci_ids]
    of_system = [each for each in fitting if _is_of(each, seen.system)]
    fitting = of_system or [each for each in fitting if each.match and not each.match.system]
    # Fewer than a platform has may be a fault, more cannot be this platform.
    fitting = [each for each in fitting if each.gpus is None or len(seen.gpu_pci_ids) <= each.gpus] or fitting
    largest = max(fitting, key=lambda each: each.gpus or 0, default=None)
    if largest and seen.virtual and len(seen.gpu_pci_ids) in _SHARES and (largest.gpus or 0) > len(seen.gpu_pci_ids):
        return Detected(largest.platform, part=True)
    if len(fitting) > 1:
        fitting = [each for each in fitting if each.match and each.match.nvswitch in (None, seen.nvswitch)] or fitting
    if len(fitting) == 1:
        return Detected(fitting[0].platform)
    names = " or ".join(each.platform for each in fitting)
    which = f", could be {names}" if names else ", no baseline has this model"
    return Detected("", f"platform unknown ({seen}{which})")


def _is_of(platform: BaselineFile, system: str) -> bool:
    """Whether a platform is a layout of the cloud that this machine is in."""
    return platform.match is not None and bool(platform.match.system) and system.startswith(platform.match.system)
