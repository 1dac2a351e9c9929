"""A made-up node that writes probe documents: healthy at first, then with the faults that a demo or a test plants."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from fleet import pcie, platforms
from fleet.load.plan import UnderLoad
from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.probe.document import SCHEMA, ProbeDocument, document_of

EPOCH_S = 1_795_248_900.0  # 2026-11-21 08:15:00 UTC: the clock of every machine unless it is told otherwise
_PROBE_S = 0.31
_ROUND_TRIP_S = 0.35
_LOST = {"why": "lost", "detail": "NVML 15: GPU is lost", "nvml": 15}


class Machine:
    """One made-up node. Nothing in it is random and no clock is read: equal calls make equal documents.

    `sections` is the data of each section in the form of docs/reference/probe-document.md, free to be changed;
    `load` is what is unusual about it under load (load/recordings.py writes what that gives); `happenings` change the
    node itself, between the facts before the load and those after it.
    """

    def __init__(self, name: str, parts: platforms.Parts, epoch_s: float = EPOCH_S) -> None:
        self.name, self.epoch_s, self.uid = name, epoch_s, 0
        self.sections = parts.sections
        self.units = parts.units
        self.gpu_addresses, self.nic_addresses = parts.gpu_addresses, parts.nic_addresses
        self.load = UnderLoad()
        self.happenings: list[Callable[[Machine], object]] = []
        self._failed: dict[str, dict[str, str]] = {}
        self._lines: list[tuple[float, str]] = []
        self.sections["kernel_log"] = {
            "source": "journal",
            "lines": [],
            "since_epoch_s": epoch_s - 40 * 86400.0,
            "dropped": 0,
            "tried": [],
        }
        uptime_s = float(self.sections["system"]["uptime_s"])
        for number, line in enumerate(parts.boot_lines):
            self.kernel(line, ago_s=uptime_s - 9.0 - number * 0.25)

    @classmethod
    def hgx_h100(cls, name: str = "gpu0001", index: int = 1, *, epoch_s: float = EPOCH_S) -> Machine:
        """8 H100 SXM, 4 NVSwitches, 8 NDR InfiniBand rails (mlx5_0 to mlx5_7) and a BlueField-3 bond (mlx5_bond_0)."""
        return cls(name, platforms.hgx_h100(name, index), epoch_s)

    @classmethod
    def pcie_l40s(cls, name: str = "l40s0001", index: int = 1, *, epoch_s: float = EPOCH_S) -> Machine:
        """8 L40S PCIe cards and 4 RoCE rails of 200 Gb/s (mlx5_0 to mlx5_3); no NVSwitch, no fabric manager."""
        return cls(name, platforms.pcie_l40s(name, index), epoch_s)

    def document(self) -> dict[str, Any]:
        """The probe document, a copy that further changes do not touch."""
        data = pickle.loads(pickle.dumps(self.sections))  # noqa: S301 - our own, and faster than deepcopy
        blocks = ["\n".join(f"{key}={value}" for key, value in unit.items()) for unit in self.units.values()]
        data["services"]["show"] = "\n\n".join(blocks)
        data["kernel_log"]["lines"] += [self._journal(when, line) for when, line in sorted(self._lines)]
        sections: dict[str, Any] = {name: {"data": value, "duration_s": 0.01} for name, value in data.items()}
        sections |= {name: reading | {"duration_s": 0.01} for name, reading in self._failed.items()}
        return {
            "schema": SCHEMA,
            "python": "3.10.12",
            "uid": self.uid,
            "epoch_s": self.epoch_s,
            "duration_s": _PROBE_S,
            "sections": sections,
        }

    def set(self, section: str, path: str, value: object) -> None:
        """Change any value: `set("system", "dmi.bios_version", "2.1.0")`."""
        _put(self.sections[section], path, value)

    def section_fails(self, section: str, why: str, detail: str = "") -> None:
        """The section says why it has no data: `section_fails("nvml", "timeout", "10 s")`."""
        self._failed[section] = {"why": why, "detail": detail}

    # GPUs

    def gpu_address(self, index: int) -> str:
        """The PCI address of a GPU: "0000:19:00.0"."""
        return self.gpu_addresses[index]

    def set_gpu(self, index: int, path: str, value: object) -> None:
        """Change a value of section `nvml`: `set_gpu(3, "ecc.volatile_uncorrected", 2)`."""
        _put(self._gpu(index), path, value)

    def set_nvlink(self, index: int, link: int, key: str, value: object) -> None:
        """Change one NVLink of a GPU: `set_nvlink(3, 7, "state", 0)`."""
        self._gpu(index)["nvlinks"][link][key] = value

    def lose_gpu(self, index: int) -> None:
        """The GPU falls off the bus while the driver is loaded: Xid 79, no answer on PCIe, an NVML handle error."""
        address, entry = self.gpu_address(index), self._gpu(index)
        entry_uuid = entry["uuid"]
        entry.clear()
        entry.update(index=index, handle=dict(_LOST))
        self._off_the_bus(address)
        self.sections["driver"]["devices"][f"nvidia{index}"] = "EIO"
        place = address.removesuffix(".0")
        self.kernel(f"NVRM: GPU at PCI:{place}: {entry_uuid}", ago_s=1800.2)
        self.kernel(
            f"NVRM: Xid (PCI:{place}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", ago_s=1800.1
        )

    def remove_gpu(self, index: int) -> None:
        """The GPU is not there at all: not on PCIe, not in the driver, not in NVML, whose indices close the gap."""
        address, nvml, driver = self.gpu_address(index), self.sections["nvml"], self.sections["driver"]
        removed = self._gpu(index)
        nvml["gpus"] = [gpu for gpu in nvml["gpus"] if gpu is not removed]
        nvml["count"] -= 1
        driver["gpus"].pop(address, None)
        driver["devices"].pop(f"nvidia{index}", None)
        self.sections["pci"] = [device for device in self.sections["pci"] if device["address"] != address]
        for number, gpu in enumerate(nvml["gpus"]):
            gpu["index"] = number

    # PCIe

    def pci(self, address: str) -> pcie.Device:
        """The device at an address, free to be changed."""
        return _only(device for device in self.sections["pci"] if device["address"] == address)

    def set_pci(self, address: str, key: str, value: object) -> None:
        """Change what sysfs says of a device: `set_pci(machine.nic_address(0), "current_link_width", "8")`."""
        self.pci(address)[key] = value

    def set_link(self, address: str, *, width: int | None = None, speed_gts: str | None = None) -> None:
        """Change the link of a device as both of its ends see it, and NVML where it is a GPU."""
        ends = [self.pci(address), self.pci(self.pci(address)["parent"])]
        for end in ends:
            if width is not None:
                end["current_link_width"] = str(width)
            if speed_gts is not None:
                end["current_link_speed"] = f"{speed_gts} GT/s PCIe"
        if address in self.gpu_addresses:
            gpu = self._gpu(self.gpu_addresses.index(address))
            gpu["link_width"] = width if width is not None else gpu["link_width"]

    def count_correctable_errors(self, address: str, count: int) -> None:
        """The device has seen so many correctable PCIe errors since boot."""
        self.set_pci(address, "aer_dev_correctable", pcie.correctable(count))

    # Network

    def nic_address(self, number: int) -> str:
        """The PCI address of a rail's adapter: mlx5_<number>."""
        return self.nic_addresses[number]

    def set_adapter(self, device: str, key: str, value: object) -> None:
        """Change a value of an RDMA adapter: `set_adapter("mlx5_2", "fw_ver", "28.39.1002")`."""
        _put(self.sections["infiniband"][device], key, value)

    def set_port(self, device: str, port: int, path: str, value: object) -> None:
        """Change a value of a port: `set_port("mlx5_0", 1, "counters.link_downed", "3")`."""
        _put(self.sections["infiniband"][device]["ports"][str(port)], path, value)

    def set_netdev(self, name: str, key: str, value: object) -> None:
        """Change a value of a network device: `set_netdev("eno1", "carrier", "0")`."""
        self.sections["netdev"][name][key] = value

    # Software

    def kernel(self, line: str, *, ago_s: float) -> None:
        """A message of the kernel, so many seconds before the probe."""
        self._lines.append((self.epoch_s - ago_s, line))

    def kernel_at_level(self, level: int, line: str, *, ago_s: float) -> None:
        """The same, of a level (3 error, 4 warning) that the probe found out."""
        self._lines.append((self.epoch_s - ago_s, f"<{level}>{line}"))

    def set_unit(self, name: str, key: str, value: str) -> None:
        """Change a property of a systemd unit: `set_unit("slurmd", "NRestarts", "7")`."""
        self.units[name][key] = value

    def stop_service(self, name: str, *, result: str = "exit-code") -> None:
        """The unit has ended by itself."""
        failed = {"ActiveState": "failed", "SubState": "failed", "Result": result}
        self.units[name] |= failed

    # Under load

    def under_load(self, measurement: str, *changes: Callable[[Any], object]) -> None:
        """Change what a measurement gives: a change for each attempt, as a suspect is measured three times.

        What a change is given says the measurement's module in demo/load: `under_load("nccl", nccl.without_nvls)`.
        """
        self.load.changes.setdefault(measurement, []).append(changes)

    def not_measured(self, measurement: str, why: CannotMeasure) -> None:
        """The measurement was not made, for this reason."""
        self.load.refused[measurement] = why

    def during_load(self, happening: Callable[[Machine], object]) -> None:
        """Change the node between the facts before the load and those after it."""
        self.happenings.append(happening)

    def later(self, seconds: float) -> Machine:
        """The same machine so many seconds later, a copy; nothing has happened to it meanwhile."""
        found = copy.copy(self)
        found.sections, found.units = copy.deepcopy(self.sections), copy.deepcopy(self.units)
        vars(found).update(_failed=dict(self._failed), _lines=list(self._lines))
        found.epoch_s += seconds
        found.sections["system"]["uptime_s"] += seconds
        return found

    def _gpu(self, index: int) -> dict[str, Any]:
        return _only(gpu for gpu in self.sections["nvml"]["gpus"] if gpu["index"] == index)

    def _off_the_bus(self, address: str) -> None:
        self.pci(address).update(
            current_link_speed="Unknown",
            current_link_width="63",
            max_link_speed="Unknown",
            max_link_width="63",
            config="ff" * 64,
            revision="0xff",
        )

    def _journal(self, when: float, line: str) -> str:
        """As journalctl -o short-iso-precise writes it."""
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=round(when, 6))
        level, text = (line[:3], line[3:]) if line[:1] == "<" and line[2:3] == ">" else ("", line)
        return f"{level}{moment.strftime('%Y-%m-%dT%H:%M:%S.%f')}+0000 {self.name} kernel: {text}"


def probe_document_of(machine: Machine) -> ProbeDocument:
    """The machine's document as it comes over a fast connection to a controller with the same clock."""
    return document_of(
        machine.document(),
        received_epoch_s=machine.epoch_s + (_PROBE_S + _ROUND_TRIP_S) / 2,
        round_trip_s=_ROUND_TRIP_S,
    )


def facts_of(machine: Machine) -> NodeFacts:
    """The machine's facts, as a check would get them."""
    return NodeFacts(probe_document_of(machine))


def _put(holder: Any, path: str, value: object) -> None:
    """Change a value in nested objects; the path must lead to something that is there."""
    *way, last = path.split(".")
    for step in way:
        holder = holder[step]
    if last not in holder:
        raise KeyError(path)
    holder[last] = value


def _only(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    one = list(found)
    if len(one) != 1:
        raise KeyError(f"{len(one)} such parts")
    return one[0]
