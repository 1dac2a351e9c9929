"""ibstatus and ibstat in recordings: ports of RDMA adapters. On a live node sysfs has the same."""

from __future__ import annotations

import re
from itertools import groupby

from nodegate.errors import CannotMeasure
from nodegate.probe.rdma import Rdma, RdmaDevice, RdmaPort, rate_in, state_in
from nodegate.probe.readings import integer_in, label, wrong
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

MAX_TEXT = 1 << 20
_PORT = re.compile(r"Infiniband device '([\w.-]{1,60})' port ([0-9]{1,3}) status:")
_CA = re.compile(r"CA '([\w.-]{1,60})'")
_CA_PORT = re.compile(r"\s+Port ([0-9]{1,3}):")
_FIELD = re.compile(r"\s+([A-Za-z_ ]{1,40}?):(?:\s+(.*))?")
_NOT_SHOWN = Unknown(Why.MISSING, "this tool does not show it")

Fields = dict[str, str]


def parse_ibstatus(written: str) -> Rdma:
    """`ibstatus`: states, rate ("400 Gb/sec (4X NDR)") and link layer of every port.

    Raises:
        CannotMeasure: it is empty, cut off, or a line is not what ibstatus writes.
    """
    ports: list[tuple[str, int, Fields]] = []
    for line in _lines(written):
        if match := _PORT.fullmatch(line):
            ports.append((match[1], int(match[2]), {}))
        elif (match := _FIELD.fullmatch(line)) and ports:
            ports[-1][2][match[1]] = match[2] or ""
        else:
            raise _bad("ibstatus", line)
    if not ports:
        raise _bad("ibstatus", "")
    return _rdma([_ibstatus_port(*port) for port in ports], {})


def parse_ibstat(written: str) -> Rdma:
    """`ibstat`: states, rate ("400": Gb/s) and link layer of every port, firmware and type of every adapter.

    Raises:
        CannotMeasure: it is empty, cut off, or a line is not what ibstat writes.
    """
    adapters: dict[str, Fields] = {}
    ports: list[tuple[str, int, Fields]] = []
    fields: Fields = {}
    name = ""
    for line in _lines(written):
        if match := _CA.fullmatch(line):
            name, fields = match[1], {}
            adapters[name] = fields
        elif name and (match := _CA_PORT.fullmatch(line)):
            fields = {}
            ports.append((name, int(match[1]), fields))
        elif name and (match := _FIELD.fullmatch(line)):
            fields[match[1]] = match[2] or ""
        else:
            raise _bad("ibstat", line)
    if not ports:
        raise _bad("ibstat", "")
    return _rdma([_ibstat_port(*port) for port in ports], adapters)


def _ibstatus_port(device: str, port: int, fields: Fields) -> RdmaPort:
    rate, lanes = rate_in(_given("ibstatus", device, fields, "rate"))
    layer = _given("ibstatus", device, fields, "link_layer")
    return RdmaPort(
        device=device,
        port=port,
        state=state_in(_given("ibstatus", device, fields, "state")),
        phys_state=state_in(_given("ibstatus", device, fields, "phys state")),
        rate_gbps=rate,
        lanes=lanes,
        link_layer=label(layer),
        sm_lid=_hexadecimal(fields.get("sm lid", "")),
        netdev="",
        counters={},
        hw_counters={},
        gids={},
    )


def _ibstat_port(device: str, port: int, fields: Fields) -> RdmaPort:
    rate = integer_in(_given("ibstat", device, fields, "Rate"))
    return RdmaPort(
        device=device,
        port=port,
        state=label(_given("ibstat", device, fields, "State").upper()),
        phys_state=label(_given("ibstat", device, fields, "Physical state")),
        rate_gbps=rate if isinstance(rate, Unknown) else float(rate),
        lanes=_NOT_SHOWN,
        link_layer=label(_given("ibstat", device, fields, "Link layer")),
        sm_lid=integer_in(fields.get("SM lid", "")),
        netdev="",
        counters={},
        hw_counters={},
        gids={},
    )


def _rdma(ports: list[RdmaPort], adapters: dict[str, Fields]) -> Rdma:
    ports.sort(key=lambda port: (port.device, port.port))
    return Rdma(
        tuple(
            _adapter(name, tuple(group), adapters.get(name, {}))
            for name, group in groupby(ports, key=lambda port: port.device)
        )
    )


def _adapter(name: str, ports: tuple[RdmaPort, ...], fields: Fields) -> RdmaDevice:
    return RdmaDevice(
        name=name,
        firmware=label(fields["Firmware version"]) if "Firmware version" in fields else _NOT_SHOWN,
        hca_type=label(fields["CA type"]) if "CA type" in fields else _NOT_SHOWN,
        node_guid=label(fields["Node GUID"]) if "Node GUID" in fields else _NOT_SHOWN,
        address="",
        ports=ports,
    )


def _given(tool: str, device: str, fields: Fields, name: str) -> str:
    if name not in fields:
        raise _bad(tool, f"{device} has no {name}: the output is truncated")
    return fields[name]


def _hexadecimal(written: str) -> Known[int]:
    return int(written, 16) if re.fullmatch(r"0x[0-9a-f]{1,8}", written) else wrong("a number", written)


def _lines(written: str) -> list[str]:
    return [line.rstrip() for line in written[:MAX_TEXT].splitlines() if line.strip()]


def _bad(tool: str, line: str) -> CannotMeasure:
    what = f"is not what it writes: {shown(line.strip(), 120)}" if line else "is empty"
    return CannotMeasure(f"the output of {tool} {what}", next_step=f"run {tool} on the node by hand")
