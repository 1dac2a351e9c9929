"""NVML's library and whether it fits the loaded driver. Section `nvml`, also if NVML refused to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown

_OTHER_VERSION = 18  # nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH


@dataclass(frozen=True)
class NvmlLibrary:
    """What the library reports about the driver. `refuses_driver`: its version differs from the kernel module's."""

    driver_version: Known[str]
    refuses_driver: bool


def parse(sections: Mapping[str, object]) -> NvmlLibrary:
    """From the sections of the probe document; a section without data leaves the version unknown, with the reason."""
    section = read.mapping(sections, "nvml")
    version = read.text(read.mapping(section, "data"), "driver_version")
    return NvmlLibrary(version, isinstance(version, Unknown) and version.nvml == _OTHER_VERSION)
