"""Error counters before and after the load: by how much each has grown, and how much of that is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.probe.gpu import Gpu, NvLink, NvLink5
from nodegate.probe.pci import PciDevice
from nodegate.probe.rdma import NetDevice, RdmaPort
from nodegate.records import part
from nodegate.records.finding import COUNTER_FULL, Limit, NumberLimit
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.subjects import pcie
from nodegate.subjects.gpu import lost_reason
from nodegate.unknown import Known, Unknown, Why, both
from nodegate.verdicts import Verdicts

T = TypeVar("T")
# InfiniBand PortCounters (IBTA, volume 1, 16.1.3.5): these stop at their full scale. Others have 32 or 64 bits.
_BITS = {
    4: "local_link_integrity_errors excessive_buffer_overrun_errors",
    8: "link_error_recovery link_downed port_xmit_constraint_errors port_rcv_constraint_errors",
    16: "symbol_error port_rcv_errors port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_discards "
    "VL15_dropped",
}
FULL_SCALES = {name: (1 << bits) - 1 for bits, names in _BITS.items() for name in names.split()}
FULL_32_BITS = (1 << 32) - 1
_RESTARTED = "look at the kernel log and the power supply: a node that restarts under load is not fit for work"


@dataclass(frozen=True)
class Growth:
    """One counter of one device over the load.

    `by` is what was added; unknown where either reading is, or where the counter went back. `scale` is where it stops:
    one that stood there before is `full` and shows nothing, one that came to it `ran_full` and has grown by `by` or
    more.
    """

    part: Part
    counter: str
    before: Known[int]
    after: Known[int]
    scale: int = FULL_32_BITS

    @property
    def full(self) -> bool:
        """Whether it was at its full scale already."""
        return self.before == self.after == self.scale

    @property
    def ran_full(self) -> bool:
        """Whether it came to its full scale: what came after that is not counted."""
        return self.after == self.scale and self.before != self.scale

    @property
    def by(self) -> Known[int]:
        """How many were added."""
        return both(self.after, self.before, _added)

    @property
    def is_reported(self) -> bool:
        """Whether this device has the counter at all: absent both times means that it does not."""
        return not all(isinstance(each, Unknown) and each.is_absent for each in (self.before, self.after))


def _added(after: int, before: int) -> Known[int]:
    if after < before:
        return Unknown(Why.FAILED, f"it dropped from {before} to {after}: it was reset in between")
    return after - before


@dataclass(frozen=True)
class Pair(Generic[T]):
    """One device, link or port as it was before the load and after it."""

    part: Part
    before: T
    after: T


@dataclass(frozen=True)
class Counters:
    """The facts of one node before the load and after it; what either lacks raises CannotMeasure when it is read."""

    before: NodeFacts
    after: NodeFacts

    @cached_property
    def seconds(self) -> float:
        """The time between both readings, by the node's clock.

        Raises:
            CannotMeasure: the node was restarted in between, or its clock went back.
        """
        first, second = self.before.host.boot_id, self.after.host.boot_id
        if not isinstance(first, Unknown) and not isinstance(second, Unknown) and first != second:
            raise CannotMeasure("the node was rebooted between the two readings", next_step=_RESTARTED)
        passed_s = self.after.document.epoch_s - self.before.document.epoch_s
        if passed_s <= 0:
            step = "synchronise the node's clock, then measure it again"
            raise CannotMeasure("the node's clock was set back between the two readings", next_step=step)
        return passed_s

    @cached_property
    def gpus(self) -> tuple[Pair[Gpu], ...]:
        """The GPUs that responded both times, by UUID."""
        before = {gpu.uuid: gpu for gpu in self.before.gpus.devices if lost_reason(gpu) is None}
        after = [gpu for gpu in self.after.gpus.devices if lost_reason(gpu) is None]
        return tuple(Pair(gpu.part, before[gpu.uuid], gpu) for gpu in after if gpu.uuid in before)

    @cached_property
    def pci(self) -> tuple[Pair[PciDevice], ...]:
        """GPUs, RDMA NICs, NVSwitches and the bridges above them that were there both times."""
        before = {device.address: device for device in pcie.on_the_way(self.before.pci)}
        after = [device for device in pcie.on_the_way(self.after.pci) if device.address in before]
        return tuple(Pair(pcie.part_of(device), before[device.address], device) for device in after)

    @cached_property
    def ports(self) -> tuple[Pair[RdmaPort], ...]:
        """The RDMA ports that were there both times."""
        before = {port.part: port for port in self.before.rdma.ports}
        after = [port for port in self.after.rdma.ports if port.part in before]
        return tuple(Pair(port.part, before[port.part], port) for port in after)

    def nvlinks(self, pair: Pair[Gpu]) -> Known[tuple[Pair[NvLink], ...]]:
        """The NVLinks of a GPU that were reported both times; unknown where either reading is."""

        def pairs(before: Iterable[NvLink], after: Iterable[NvLink]) -> tuple[Pair[NvLink], ...]:
            was = {link.link: link for link in before}
            there = (link for link in after if link.link in was)
            return tuple(Pair(part.nvlink(pair.part, link.link), was[link.link], link) for link in there)

        return both(pair.before.nvlinks, pair.after.nvlinks, pairs)

    def netdev(self, name: str) -> tuple[NetDevice, NetDevice] | None:
        """A network device before and after; None where it is not known both times."""
        before, after = self.before.netdevs.get(name), self.after.netdevs.get(name)
        return None if before is None or after is None else (before, after)

    @cached_property
    def devices(self) -> Mapping[str, tuple[Part, ...]]:
        """What is there, by what happened to it: "stayed", "vanished" or "appeared"."""
        before, after = dict.fromkeys(_seen(self.before)), dict.fromkeys(_seen(self.after))
        return {
            "stayed": tuple(each for each in after if each in before),
            "vanished": tuple(each for each in before if each not in after),
            "appeared": tuple(each for each in after if each not in before),
        }


def port_growth(pair: Pair[RdmaPort], counter: str) -> Growth:
    """One counter of an RDMA port, from `counters` or `hw_counters`."""
    before, after = _counter(pair.before, counter), _counter(pair.after, counter)
    return Growth(pair.part, counter, before, after, FULL_SCALES.get(counter, FULL_32_BITS))


def not_counted(counters: Counters, pair: Pair[RdmaPort]) -> list[str]:
    """What a port does not count although every one does: `link_downed` and `symbol_error`.

    Of Ethernet the first only, and `carrier_changes` of the network device will do.
    """
    infiniband = pair.after.link_layer == "InfiniBand"
    both = counters.netdev(pair.after.netdev) if pair.after.netdev and not infiniband else None
    by_carrier = both is not None and not any(isinstance(each.carrier_changes, Unknown) for each in both)
    wanted = ("link_downed", "symbol_error") if infiniband else () if by_carrier else ("link_downed",)
    return [counter for counter in wanted if not port_growth(pair, counter).is_reported]


def _counter(port: RdmaPort, name: str) -> Known[int]:
    nothing = Unknown(Why.MISSING, f"this port has no {name}")
    return port.counters.get(name, port.hw_counters.get(name, nothing))


def _seen(facts: NodeFacts) -> Iterable[Part]:
    """GPUs that respond, RDMA ports, and the PCIe devices on the way to both, by the names that findings use."""
    for gpu in facts.gpus.devices:
        if lost_reason(gpu) is None:
            yield gpu.part
    for device in pcie.on_the_way(facts.pci):
        if device.answers is not False:
            yield pcie.part_of(device)
    for port in facts.rdma.ports:
        yield port.part


HOUR_S = 3600.0


def allowed(per_hour: NumberLimit, seconds: float) -> NumberLimit:
    """What a limit per hour allows in this many seconds, rounded up: one event in a short window is no rate."""
    most = math.ceil(per_hour.value * max(seconds, 0.0) / HOUR_S)
    time = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return replace(per_hour, value=most, unit="", source=f"{per_hour.value:g} an hour over {time}; {per_hour.source}")


def whole(count: Known[float]) -> Known[int]:
    """A count without its decimals."""
    return int(count) if isinstance(count, (int, float)) else count


CLEAR = "perfquery -R, or a reload of the driver, resets it"
_CLEAR_FIRST = "clear it (perfquery -R, or a reload of the driver), then measure again"


def judged(
    grown: Growth,
    limit: NumberLimit | None,
    verdicts: Verdicts,
    *,
    what: str,
    remedy: str,
    otherwise: Verdict = Verdict.FAIL,
    code: str = "",
) -> None:
    """Leave a finding for a counter that this device has."""
    if not grown.is_reported:
        return
    quantity = f"{what} under load"
    if grown.full:  # no error: ports in service have full counters, of link_downed too, and most of them are good
        text = f"{what} not judged: at its maximum since before the load ({grown.after}), so it cannot show new errors"
        verdicts.found(
            Verdict.NOT_JUDGED, part=grown.part, text=text, action=_CLEAR_FIRST, quantity=quantity, code=COUNTER_FULL
        )
        return
    observed = grown.by
    if grown.ran_full and limit is not None and not isinstance(observed, Unknown) and observed <= limit.value:
        observed = Unknown(Why.FAILED, f"it reached its maximum {grown.after} and stopped counting; {CLEAR}")
    verdicts.at_most(
        part=grown.part,
        quantity=quantity,
        observed=observed,
        limit=limit,
        action=remedy,
        otherwise=otherwise,
        code=code,
    )


def is_too_many(grown: Growth, limit: NumberLimit) -> bool:
    """Whether a counter needs a finding of its own: it grew above its limit, is unknown or full."""
    return grown.full or grown.ran_full or isinstance(grown.by, Unknown) or grown.by > limit.value


def skip_if_none(grown: Iterable[Growth], pair: Pair[Gpu], why: str, verdicts: Verdicts) -> None:
    """A GPU that has none of these counters by its own word is skipped."""
    if not any(each.is_reported for each in grown):
        verdicts.lacking(part=pair.part, text=why)


def of_part(gpu: Gpu, name: str) -> Known[int]:
    """One number of what a GPU reports of its remapped rows."""
    return gpu.remap if isinstance(gpu.remap, Unknown) else int(getattr(gpu.remap, name))


def of_link(link: Pair[NvLink]) -> tuple[Growth, ...]:
    """The error counters of one NVLink."""
    read = {kind: attrgetter(f"{kind.lower()}_errors") for kind in ("replay", "recovery", "CRC")}
    return tuple(Growth(link.part, kind, errors(link.before), errors(link.after)) for kind, errors in read.items())


NVLINK5: Mapping[str, Callable[[NvLink5], Known[int]]] = {
    "recoveries that failed": lambda link: link.failed_recoveries,
    "recovered links": lambda link: link.recovered,
    "malformed packets": lambda link: link.malformed_packets,
    "buffer overruns": lambda link: link.buffer_overruns,
    "receive errors": lambda link: link.receive_errors,
    "link integrity errors": lambda link: link.link_integrity,
    "discarded packets": lambda link: link.discards,
}


def of_nvlink5(pair: Pair[Gpu]) -> tuple[Growth, ...]:
    """The error counters of all links of NVLink 5 together; where they were not read, the first."""
    before, after = pair.before.nvlink5, pair.after.nvlink5
    if isinstance(after, Unknown):
        return (Growth(pair.part, next(iter(NVLINK5)), after, after),)
    if isinstance(before, Unknown):
        return (Growth(pair.part, next(iter(NVLINK5)), before, before),)
    return tuple(Growth(pair.part, what, count(before), count(after)) for what, count in NVLINK5.items())


def replays_allowed(
    per_lane: Limit[tuple[float, ...]], lanes: Known[int], generation: Known[int], seconds: float
) -> Known[NumberLimit]:
    """How many PCIe replays a link may have in some seconds; `per_lane` is a rate per minute for each generation."""

    def of_link(lanes: int, generation: int) -> NumberLimit:
        if generation < 1:
            return Limit(0, "", per_lane.source)
        rate = per_lane.value[min(generation, len(per_lane.value)) - 1]
        most = math.ceil(math.ceil(rate * lanes) * seconds / 60)
        return Limit(most, "", f"Gen{generation} x{lanes} over {seconds:.0f} s; {per_lane.source}", kind=per_lane.kind)

    return both(lanes, generation, of_link)
