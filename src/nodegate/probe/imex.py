"""What `nvidia-imex-ctl -N -j` prints of the IMEX domain, the nodes that share an NVLink domain. Section `services`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, Why, value_or


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
    """The domain from the JSON text of nvidia-imex-ctl."""
    try:
        data = read.record(json.loads(written))
    except (ValueError, RecursionError):
        return Unknown(Why.FAILED, f"nvidia-imex-ctl: {read.wrong('JSON', written).detail}")
    nodes = read.mapping(data, "nodes")
    if isinstance(nodes, Unknown):
        return Unknown(Why.FAILED, f"nvidia-imex-ctl: {nodes}")
    return ImexDomain(read.text(data, "status"), tuple(_node(read.record(each)) for each in nodes.values()))


def _node(entry: Known[Mapping[str, object]]) -> ImexNode:
    connections = read.mapped(read.mapping(entry, "connections"), _connections)
    return read.filled(ImexNode, entry, hostname=read.text(entry, "hostName"), connections=connections)


def _connections(entries: Mapping[str, object]) -> Mapping[str, Known[str]]:
    found = {}
    for number, entry in entries.items():
        one = read.record(entry)
        found[value_or(read.text(one, "host"), number)] = read.text(one, "status")
    return found
