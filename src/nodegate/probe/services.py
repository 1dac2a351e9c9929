"""The systemd units that a GPU node needs, and its IMEX domain: the nodes that share NVLink. Section `services`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

_version = read.first(r"\b([0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)\b", "a version")
_STATES = ("LoadState", "ActiveState", "SubState", "Result")
_NOT_ASKED = Unknown(Why.NOT_DONE, "the probe that recorded this did not ask")


@dataclass(frozen=True)
class ImexNode:
    """One node of the domain. `connections` are the states of its own, by the host of the other node: "CONNECTED"."""

    host: Known[str]  # as the configuration names it, mostly an IP address
    hostname: Known[str]
    status: Known[str]  # "READY"
    version: Known[str]  # "580.95.05"; "NO_GPU" of a member without GPUs
    connections: Known[Mapping[str, Known[str]]]


@dataclass(frozen=True)
class ImexDomain:
    """The domain as this node sees it: what it says of others is partly made up from its configuration."""

    status: Known[str]  # "UP", "DOWN", "DEGRADED"
    nodes: tuple[ImexNode, ...]


def domain_in(written: str) -> Known[ImexDomain]:
    """The domain from the JSON text of `nvidia-imex-ctl -N -j`."""
    try:
        data = read.record(json.loads(written))
    except (ValueError, RecursionError):
        return Unknown(Why.FAILED, f"nvidia-imex-ctl: {read.wrong('JSON', written).detail}")
    nodes = read.mapping(data, "nodes")
    if isinstance(nodes, Unknown):
        return Unknown(Why.FAILED, f"nvidia-imex-ctl: {nodes}")
    return ImexDomain(read.text(data, "status"), tuple(_node(read.record(each)) for each in nodes.values()))


def _node(entry: Known[Mapping[str, object]]) -> ImexNode:
    connections = read.mapping(entry, "connections")
    if not isinstance(connections, Unknown):
        others = [(number, read.record(each)) for number, each in connections.items()]
        connections = {value_or(read.text(one, "host"), number): read.text(one, "status") for number, one in others}
    return read.filled(ImexNode, entry, hostname=read.text(entry, "hostName"), connections=connections)


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
    units = {}
    for text in re.split(r"\n\s*\n", written):
        block = {name.strip(): value for name, _, value in (line.partition("=") for line in text.splitlines())}
        if name := block.get("Id"):
            load, active, low, result = (value_or(read.text(block, key), "") for key in _STATES)
            service = Service(load, active, low, result, read.counted(block, "NRestarts"))
            units[shown(name.removesuffix(".service"), read.MAX_LABEL)] = service
    return units or Unknown(Why.FAILED, "systemctl show listed no unit")
