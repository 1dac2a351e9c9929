"""The NVIDIA kernel driver according to its own files and device nodes. Section `driver`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or


@dataclass(frozen=True)
class DriverGpu:
    """A GPU as /proc/driver/nvidia/gpus lists it: needs neither NVML nor root."""

    address: str
    uuid: Known[str]
    gsp_firmware: Known[str]  # Unknown(NOT_SUPPORTED) if the driver says N/A: GSP is off
    excluded: Known[bool]


@dataclass(frozen=True)
class Driver:
    """/proc/driver/nvidia and the device nodes.

    `open_kernel_module`: the open flavour, not the proprietary one.
    """

    loaded: bool
    version: Known[str]
    open_kernel_module: Known[bool]
    gpus: Known[tuple[DriverGpu, ...]]
    device_nodes: Mapping[str, str]  # "nvidia0" -> "ok" or an errno name ("EPERM": hidden by the login's cgroup)


def parse(found: Mapping[str, object]) -> Driver:
    """The data of section `driver`.

    Raises:
        CannotMeasure: it lacks whether the driver is loaded, or which device nodes there are.
    """
    step = "check /proc/driver/nvidia and /dev/nvidia* on the node"
    loaded = read.needed(read.flag(found, "loaded"), "driver files", step)
    nodes = read.needed(read.mapping(found, "devices"), "driver files", step)
    version, gpus = read.body(found, "version"), read.mapping(found, "gpus")
    return Driver(
        loaded=loaded,
        version=read.mapped(version, version_in),
        open_kernel_module=read.mapped(version, lambda text: "Open Kernel Module" in text),
        gpus=read.mapped(gpus, lambda found: tuple(_gpu(address, found) for address in sorted(found))),
        device_nodes={name: value_or(read.text(nodes, name), "unknown") for name in nodes},
    )


# The driver version in the text of /proc/driver/nvidia/version: "550.163.01".
version_in = read.first(r"^NVRM version:.*?\b([0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)\b", "a line NVRM version")


def fields_in(written: str) -> Mapping[str, str]:
    """The lines of a file that read "Name: value"."""
    lines = (line.partition(":") for line in written.splitlines()[: read.MAX_ITEMS])
    return {shown(name.strip()): shown(text.strip(), read.MAX_LABEL) for name, colon, text in lines if colon}


def _gpu(address: str, found: Mapping[str, object]) -> DriverGpu:
    information = read.body(found, address)
    name = value_or(read.address_in(address), address)
    lines = read.mapped(information, fields_in)
    return DriverGpu(
        address=name,
        uuid=read.text(lines, "GPU UUID"),
        gsp_firmware=read.mapped(read.text(lines, "GPU Firmware"), _gsp_firmware),
        excluded=read.mapped(read.text(lines, "GPU Excluded"), _yes),
    )


def _gsp_firmware(written: str) -> Known[str]:
    return Unknown(Why.NOT_SUPPORTED, "GSP is off: GPU Firmware N/A") if written in ("N/A", "") else written


def _yes(written: str) -> Known[bool]:
    return written == "Yes" if written in ("Yes", "No") else read.wrong("Yes or No", written)
