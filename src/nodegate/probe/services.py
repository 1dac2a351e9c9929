"""The systemd units that a GPU node needs. Section `services`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.probe.imex import ImexDomain, domain_in
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_NOT_ASKED = Unknown(Why.NOT_DONE, "the probe that recorded this did not ask")


@dataclass(frozen=True)
class Service:
    """One systemd unit. `load_state` "not-found" means that it is not installed."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    restarts: Known[int]


@dataclass(frozen=True)
class Services:
    """The systemd units that matter, by name; unknown if systemd does not answer."""

    units: Known[Mapping[str, Service]]
    fabric_manager_version: Known[str]  # "550.163.01"
    fabric_manager_log: Known[str]
    imex: Known[ImexDomain]


def parse(found: Mapping[str, object]) -> Services:
    """The data of section `services`."""
    return Services(
        units=read.mapped(read.body(found, "show"), units_in),
        fabric_manager_version=read.mapped(read.text(found, "fabric_manager_version"), _version),
        fabric_manager_log=read.body(found, "fabric_manager_log"),
        imex=read.mapped(read.body(found, "imex"), domain_in) if "imex" in found else _NOT_ASKED,
    )


def units_in(written: str) -> Known[Mapping[str, Service]]:
    """Units by name from `systemctl show`: key=value blocks between blank lines, in systemd's own order.

    A name is "nvidia-fabricmanager".
    """
    blocks = [_properties(block) for block in re.split(r"\n\s*\n", written)]
    units = {_name(block["Id"]): _service(block) for block in blocks if block.get("Id")}
    return units or Unknown(Why.FAILED, "systemctl show listed no unit")


def _properties(block: str) -> Mapping[str, str]:
    return {name.strip(): value for name, _, value in (line.partition("=") for line in block.splitlines())}


def _name(unit: str) -> str:
    return shown(unit.removesuffix(".service"), read.MAX_LABEL)


def _service(block: Mapping[str, str]) -> Service:
    return Service(
        load_state=value_or(read.text(block, "LoadState"), ""),
        active_state=value_or(read.text(block, "ActiveState"), ""),
        sub_state=value_or(read.text(block, "SubState"), ""),
        result=value_or(read.text(block, "Result"), ""),
        restarts=read.counted(block, "NRestarts"),
    )


def _version(written: str) -> Known[str]:
    match = re.search(r"\b[0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?\b", written)
    return match[0] if match else read.wrong("a version", written)
