"""Link changes of NICs in the kernel log: a link that went down and came back, or stayed down, within one boot."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nodegate.kernel_log.window import LogWindow, shown, times
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.records import part
from nodegate.records.finding import AT_MOST, NumberLimit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown
from nodegate.verdicts import Verdicts

_PCI = r"(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_CHANGES = (
    # mlx5_core 0000:5c:00.0 ibp92s0: Link down
    re.compile(rf"mlx5_core {_PCI} (?P<name>[\w.-]{{1,32}}): Link (?P<to>down|up)\b"),
    # bnxt_en 0000:5c:00.0 ens1f0np0: NIC Link is Down
    re.compile(rf"(?:bnxt_en|ice|i40e|ixgbe|ionic) {_PCI} (?P<name>[\w.-]{{1,32}}): NIC Link is (?P<to>Down|Up)\b"),
    # infiniband mlx5_3: Port: 1 Link DOWN
    re.compile(r"(?:infiniband )?(?P<device>mlx[45]_\w{1,16}): Port: \d{1,2} Link (?P<to>DOWN|ACTIVE)\b"),
    # infiniband rxe1: set down (soft-RoCE)
    re.compile(r"infiniband (?P<device>rxe\w{1,16}): set (?P<to>down|active)\b"),
    # systemd-networkd[2385]: ib1: Lost carrier (where the kernel log is read from a file)
    re.compile(r"systemd-networkd\[\d{1,10}\]: (?P<device>[\w.-]{1,32}): (?P<to>Lost|Gained) carrier\b"),
)
_DOWN = frozenset({"down", "lost"})
_CLEAN = "clean or replace the cable or transceiver; look at the switch port"
_SWITCH = "look at the switch that these nodes share and at its log: this node's cable is not to blame"
# Nodes that lose a link within this time lost it to one event. Their clocks agree better than this where they are
# synchronised (host.clock_skew).
SAME_MOMENT_S = 1.0


@dataclass(frozen=True)
class Together:
    """`others` nodes lost a link within `within_s` of one of this node's; `rail` is "" when they were of several."""

    others: int
    rail: str
    within_s: float = SAME_MOMENT_S


@dataclass(frozen=True)
class Outage:
    """A link-down, and for how long: None while it lasts, where the lines have no times, and before the last boot."""

    line: KernelLine
    seconds: float | None = None


def link_downs(log: KernelLog, window: LogWindow, grace_s: float) -> dict[str, list[Outage]]:
    """The link-downs of each NIC in the window.

    Left out are those soon after boot (bring-up) and those with which an earlier boot ended (the shutdown).
    """
    open_downs: dict[str, KernelLine] = {}
    found: defaultdict[str, list[Outage]] = defaultdict(list)
    for device, is_down, line in changes(log.lines):
        if is_down:
            open_downs[device] = line
            continue
        down = open_downs.pop(device, None)
        early = window.earlier_boot(line.epoch_s)
        if down and window.earlier_boot(down.epoch_s) == early:
            if early or isinstance(down.epoch_s, Unknown) or isinstance(line.epoch_s, Unknown):
                found[device].append(Outage(down))
            else:
                found[device].append(Outage(down, line.epoch_s - down.epoch_s))
    for device, down in open_downs.items():
        if not window.earlier_boot(down.epoch_s):
            found[device].append(Outage(down))
    counted = {
        device: [down for down in downs if _counts(down.line, window, grace_s)] for device, downs in found.items()
    }
    return {device: downs for device, downs in counted.items() if downs}


def changes(lines: Sequence[KernelLine]) -> Iterator[tuple[str, bool, KernelLine]]:
    """Every link change: the device as its line names it, whether the link went down, and the line."""
    for line in lines:
        match = next((match for match in (form.search(line.text) for form in _CHANGES) if match), None)
        if match is not None:
            groups = match.groupdict()
            yield f"{groups['device']} {groups.get('name') or ''}".strip(), groups["to"].lower() in _DOWN, line


def tell(
    downs_by_device: dict[str, list[Outage]],
    verdicts: Verdicts,
    *,
    window: NumberLimit,
    limit: NumberLimit,
    longest: NumberLimit | None,
    together: Callable[[str, float], Together | None],
) -> None:
    """A finding for each NIC whose link went down. More than `limit` in `window` (hours) fail, as does a long outage.

    `together` says which other nodes lost a link at the same moment: such a link-down was caused by the switch, and
    does not count against this node.
    """
    for device, downs in downs_by_device.items():
        events, alone = [], []
        for down in downs:
            at_s = down.line.epoch_s
            event = None if isinstance(at_s, Unknown) else together(device, at_s)
            if event:
                events.append(event)
            else:
                alone.append(down)
        own = len(alone)
        _tell_outage(device, alone, longest, verdicts)
        many = own > limit.value
        said = [times(len(downs), downs[0].line.epoch_s, downs[-1].line.epoch_s)]
        said += [_shared(events, len(downs))] if events else []
        few = f"up to {limit.value} in {window.value} h can be chance" if own else ""
        verdicts.found(
            Verdict.FAIL if many else Verdict.WARN,
            part=part.from_kernel("NIC", device),
            text=f"link down {', '.join(said)}",
            note=f"counted over {window.value} h" if many else few,
            action=_CLEAN if own else _SWITCH,
            quantity="link-downs",
            observed=own if many else len(downs),
            unit=limit.unit,
            limit=replace(limit, direction=AT_MOST) if many else None,
            code="flaps" if many else "link down" if own else "switch event",
        )


def _tell_outage(device: str, downs: Sequence[Outage], longest: NumberLimit | None, verdicts: Verdicts) -> None:
    """A finding for the longest outage that is over; a port that is down now is judged by its state."""
    worst = max((down for down in downs if down.seconds is not None), key=_length, default=None)
    if worst is None or longest is None or _length(worst) <= longest.value:
        return
    verdicts.found(
        Verdict.FAIL,
        part=part.from_kernel("NIC", device),
        text=f"link down for {_length(worst):.0f} s, once at {shown(worst.line.epoch_s)}",
        note="longer than a job waits",
        action=f"{_CLEAN}; after a repair reboot the node, which settles it",
        quantity="outage",
        observed=round(_length(worst), 1),
        unit=longest.unit,
        limit=replace(longest, direction=AT_MOST),
        code="outage",
    )


def _length(outage: Outage) -> float:
    return outage.seconds or 0.0


def _shared(events: Sequence[Together], count: int) -> str:
    """Who else lost a link: 4 of them with 31 other nodes within 1 s: one switch event (rail mlx5_2)."""
    largest = max(events, key=lambda event: event.others)
    rails = {event.rail for event in events}
    rail = f" (rail {largest.rail})" if largest.rail and len(rails) == 1 else ""
    which = "" if len(events) == count else f"{len(events)} of them "
    more = "up to " if len({event.others for event in events}) > 1 else ""
    what = "one switch event" if len(events) == 1 else f"{len(events)} switch events"
    return f"{which}with {more}{largest.others} other nodes within {largest.within_s:g} s: {what}{rail}"


def _counts(down: KernelLine, window: LogWindow, grace_s: float) -> bool:
    if not window.recent(down.epoch_s):
        return False
    if isinstance(down.epoch_s, Unknown) or isinstance(window.boot_s, Unknown) or window.earlier_boot(down.epoch_s):
        return True
    return down.epoch_s >= window.boot_s + grace_s
