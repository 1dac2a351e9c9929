"""ethtool: link settings, driver statistics (-S) and what the module in the cage says of itself (-m)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe.readings import shown, wrong
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 1 << 20
_COUNT = re.compile(r"\s+(\S.{0,120}): (-?[0-9]{1,20})")
_SETTING = re.compile(r"\s*(\S[^:]{0,60}?)\s*: ?(.*)")
_DBM = re.compile(r"[0-9.]{1,12} mW / (-?[0-9.]{1,8}|-inf) dBm")
_NO_LIGHT_DBM = -40.0  # 0.1 uW, the least that a module can state; ethtool writes 0 mW as -inf dBm
_CELSIUS = re.compile(r"(-?[0-9.]{1,8}) degrees C\b.*")
_RECEIVED = re.compile(r"Receiver signal average optical power|Rcvr signal avg optical power ?\(Channel [0-9]{1,2}\)")
_SENT = re.compile(r"Laser output power|(?:Laser tx power|Transmit avg optical power) ?\(Channel [0-9]{1,2}\)")


@dataclass(frozen=True)
class LinkSettings:
    """What `ethtool DEVICE` says. `speed_mbps` is Mb/s, unknown while there is no link."""

    device: str
    speed_mbps: Known[int]
    link_detected: Known[bool]


@dataclass(frozen=True)
class Module:
    """What `ethtool -m DEVICE` says. Optical powers are dBm, one for each lane; a copper cable has none.

    `thresholds` are the module's own, by ethtool's name without the word threshold, in dBm or °C: judge by these, for
    a fixed figure fits no two kinds of module. `raised` are the alarm and warning flags that are on.
    """

    identifier: Known[str]
    temperature_c: Known[float]
    sent_dbm: tuple[float, ...]
    received_dbm: tuple[float, ...]
    thresholds: Mapping[str, float]
    raised: tuple[str, ...]


def parse_settings(written: str) -> LinkSettings:
    """`ethtool DEVICE`.

    Raises:
        CannotMeasure: it is no such output, or it is cut off before its last line (Link detected).
    """
    head = re.match(r"Settings for ([\w.@-]{1,60}):", written)
    fields = _settings(written)
    if head is None or "Link detected" not in fields:
        raise _bad("ethtool", written)
    speed, link = fields.get("Speed", ""), fields["Link detected"]
    match = re.fullmatch(r"([0-9]{1,9})Mb/s", speed)
    no_speed = Unknown(Why.MISSING, "no link") if speed in ("Unknown!", "") else wrong("a speed in Mb/s", speed)
    return LinkSettings(
        device=head[1],
        speed_mbps=int(match[1]) if match else no_speed,
        link_detected=link == "yes" if link in ("yes", "no") else wrong("yes or no", link),
    )


def parse_statistics(written: str) -> Mapping[str, int]:
    """`ethtool -S DEVICE`: counters by name. Names may hold a colon ("rxq0: rx_pkts"); the count is behind the last.

    Raises:
        CannotMeasure: it holds no counter, or a line is not what ethtool writes.
    """
    found: dict[str, int] = {}
    for line in written[:MAX_TEXT].splitlines():
        match = _COUNT.fullmatch(line.rstrip())
        if match:
            found[match[1]] = int(match[2])
        elif line.strip() and line.strip() != "NIC statistics:":
            raise _bad("ethtool -S", line)
    if not found:
        raise _bad("ethtool -S", "")
    return found


def parse_module(written: str) -> Module:
    """`ethtool -m DEVICE`, of SFP, QSFP and OSFP modules.

    Raises:
        CannotMeasure: it names no kind of module, or an optical power or a threshold cannot be read.
    """
    fields = _settings(written)
    if "Identifier" not in fields:
        raise _bad("ethtool -m", written)
    temperature = fields.get("Module temperature")
    return Module(
        identifier=shown(fields["Identifier"]),
        temperature_c=Unknown(Why.NOT_SUPPORTED, "no diagnostics") if temperature is None else _amount(temperature),
        sent_dbm=tuple(_amount(value) for name, value in fields.items() if _SENT.fullmatch(name)),
        received_dbm=tuple(_amount(value) for name, value in fields.items() if _RECEIVED.fullmatch(name)),
        thresholds={
            name.removesuffix(" threshold"): _amount(value)
            for name, value in fields.items()
            if name.endswith(" threshold") and (" dBm" in value or "degrees C" in value)
        },
        raised=tuple(name for name, value in fields.items() if re.search(r"alarm|warning", name) and value == "On"),
    )


def _settings(written: str) -> dict[str, str]:
    """Names and values; the first of each name."""
    found: dict[str, str] = {}
    for line in written[:MAX_TEXT].splitlines():
        if match := _SETTING.fullmatch(line.rstrip()):
            found.setdefault(match[1], match[2].strip())
    return found


def _amount(written: str) -> float:
    """An optical power in dBm, or a temperature in °C."""
    match = _DBM.fullmatch(written) or _CELSIUS.fullmatch(written)
    try:
        if match:
            return _NO_LIGHT_DBM if match[1] == "-inf" else float(match[1])
    except ValueError:
        pass
    raise _bad("ethtool -m", written)


def _bad(tool: str, written: str) -> CannotMeasure:
    line = next((line.strip() for line in reversed(written[:MAX_TEXT].splitlines()) if line.strip()), "")
    what = f"cannot be read at: {shown(line, 120)}" if line else "is empty"
    return CannotMeasure(f"the output of {tool} {what}", next_step=f"run {tool} on the node by hand, as root")
