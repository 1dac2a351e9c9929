"""Clock synchronisation as the node reports it and as the controller sees it. Section `clock`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from nodegate.probe import readings as read
from nodegate.probe.document import ProbeDocument
from nodegate.probe.driver import fields_in
from nodegate.unknown import Known, Unknown, Why

T = TypeVar("T")

_by_systemd = read.first(r"^NTPSynchronized=(yes|no)$", Unknown(Why.MISSING, "timedatectl shows no NTPSynchronized"))
_KERNEL_UNSYNCHRONIZED = 0x40  # linux/timex.h: STA_UNSYNC


@dataclass(frozen=True)
class Clock:
    """Clock synchronisation. `offset_s` is the offset from the time source as the node's own daemon reports it.

    `skew_s` is the node's clock minus the controller's, `skew_error_s` its uncertainty: half of the round trip's
    time beyond the probe's own time.
    """

    synchronized: Known[bool]
    offset_s: Known[float]
    skew_s: Known[float]
    skew_error_s: float


def parse(found: Mapping[str, object], document: ProbeDocument) -> Clock:
    """The data of section `clock`, and the skew against the controller's clock from the times of the round trip."""
    kernel = read.mapping(found, "adjtimex")
    chrony = read.mapped(read.body(found, "chronyc"), _chrony)
    systemd = read.mapped(read.body(found, "timedatectl"), _by_systemd)
    by_kernel = read.mapped(read.integer(kernel, "status"), lambda status: not status & _KERNEL_UNSYNCHRONIZED)
    skew, error = _skew(document)
    tracked = (chrony, chrony) if isinstance(chrony, Unknown) else chrony
    return Clock(
        synchronized=_first(tracked[0], by_kernel, read.mapped(systemd, "yes".__eq__)),
        offset_s=_first(tracked[1], read.scaled(read.number(kernel, "offset_us"), 1e-6)),
        skew_s=skew,
        skew_error_s=error,
    )


def _chrony(written: str) -> Known[tuple[bool, Known[float]]]:
    """Synchronized, and the offset in seconds, of `chronyc tracking`: the daemon that controls the clock knows best."""
    lines = fields_in(written)
    leap = lines.get("Leap status")
    if leap is None:
        return read.wrong("chronyc tracking", written)
    system = re.fullmatch(r"([0-9.]{1,20}) seconds (slow|fast) of NTP time", lines.get("System time", ""))
    offset = read.real_in(system[1]) if system else Unknown(Why.MISSING, "chronyc printed no System time")
    sign = -1.0 if system and system[2] == "slow" else 1.0
    return leap != "Not synchronised", read.scaled(offset, sign)


def _first(*readings: Known[T]) -> Known[T]:
    """The first that is known; else the first reason."""
    return next((reading for reading in readings if not isinstance(reading, Unknown)), readings[0])


def _skew(document: ProbeDocument) -> tuple[Known[float], float]:
    """Node's clock minus the controller's, and its uncertainty, in seconds.

    The probe started after it was sent, and at least its own duration before the answer arrived: the middle of
    that window is the estimate, half the window is the error.
    """
    if document.received_epoch_s <= 0:
        return Unknown(Why.MISSING, "the time of the round trip was not recorded"), 0.0
    window_s = max(document.round_trip_s - max(document.duration_s, 0.0), 0.0)
    started = document.received_epoch_s - document.round_trip_s + window_s / 2
    return document.epoch_s - started, window_s / 2
