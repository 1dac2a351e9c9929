"""Made-up PCIe devices in the words of sysfs, healthy until changed."""

from dataclasses import dataclass
from typing import Any

Device = dict[str, Any]

_AER_NAMES = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_AER_UNCORRECTABLE = ("Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP")


@dataclass(frozen=True)
class Model:
    """A kind of device. Speeds are GT/s as text, widths lanes."""

    class_code: str
    vendor: str
    device: str
    revision: str
    driver: str
    speed_max: str
    width_max: int


ROOT_PORT = Model("0x060400", "0x8086", "0x352a", "0x30", "pcieport", "32.0", 16)
SWITCH_PORT = Model("0x060400", "0x1000", "0xc030", "0xb0", "pcieport", "32.0", 16)
PLATFORM_PORT = Model("0x060400", "0x8086", "0x1bbe", "0x11", "pcieport", "8.0", 2)
H100_SXM = Model("0x030200", "0x10de", "0x2330", "0xa1", "nvidia", "32.0", 16)
L40S = Model("0x030200", "0x10de", "0x26b9", "0xa1", "nvidia", "16.0", 16)
NVSWITCH_3 = Model("0x068000", "0x10de", "0x22a3", "0xa1", "nvidia-nvswitch", "16.0", 2)
CONNECTX_7 = Model("0x020700", "0x15b3", "0x1021", "0x00", "mlx5_core", "32.0", 16)
CONNECTX_7_ETHERNET = Model("0x020000", "0x15b3", "0x1021", "0x00", "mlx5_core", "32.0", 16)
BLUEFIELD_3 = Model("0x020000", "0x15b3", "0xa2dc", "0x01", "mlx5_core", "32.0", 16)
BCM5720 = Model("0x020000", "0x14e4", "0x165f", "0x00", "tg3", "5.0", 2)


def device(model: Model, address: str, parent: str, *, numa: int, speed: str = "", width: int = 0) -> Device:
    """One device with its link at its best, or at the speed and width that are given."""
    vendor, number = model.vendor[2:], model.device[2:]
    width_now, speed_now = str(width or model.width_max), f"{speed or model.speed_max} GT/s PCIe"
    return (
        {"address": address, "class": model.class_code, "vendor": model.vendor, "device": model.device}
        | {"revision": model.revision, "driver": model.driver, "parent": parent, "numa_node": str(numa)}
        | {"current_link_speed": speed_now, "max_link_speed": f"{model.speed_max} GT/s PCIe"}
        | {"current_link_width": width_now, "max_link_width": str(model.width_max)}
        | {"aer_dev_correctable": aer(_AER_NAMES, "COR")}
        | {f"aer_dev_{kind}": aer(_AER_UNCORRECTABLE, kind.upper()) for kind in ("nonfatal", "fatal")}
        | {"config": vendor[2:] + vendor[:2] + number[2:] + number[:2] + "07041000" + "00" * 56, "acs": "0000"}
    )


def aer(names: tuple[str, ...], kind: str, first: int = 0) -> str:
    """The text of one AER counter file; `first` counts on the first name."""
    counts = [first] + [0] * (len(names) - 1)
    lines = [f"{name} {count}" for name, count in zip(names, counts, strict=True)]
    return "\n".join([*lines, f"TOTAL_ERR_{kind} {first}"])


def correctable(count: int) -> str:
    """The text of aer_dev_correctable with so many receiver errors."""
    return aer(_AER_NAMES, "COR", count)
