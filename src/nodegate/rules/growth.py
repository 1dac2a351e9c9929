"""Judging counters by what the load added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nodegate.rules.counters import Growth, growth
from nodegate.unknown import Known, Unknown
from nodegate.verdict import Limit, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.probe.gpu import Gpu, NvLink
    from nodegate.rules.counters import Pair
    from nodegate.verdicts import Verdicts

CLEAR = "perfquery -R, or a reload of the driver, sets it to zero"


def judged(
    grown: Growth,
    limit: Limit | None,
    verdicts: Verdicts,
    *,
    what: str,
    remedy: str,
    otherwise: Verdict = Verdict.FAIL,
) -> None:
    """Leave a finding for a counter that this device has."""
    if not grown.is_told:
        return
    if grown.full:
        message = f"{what} is not judged: it stands at its full scale {grown.after} and cannot show a change; {CLEAR}"
        verdicts.found(Verdict.SKIP, subject=grown.subject, message=message, metric=what, value=grown.after)
        return
    verdicts.at_most(
        subject=grown.subject,
        what=f"{what} under load",
        observed=grown.by,
        limit=limit,
        remedy=remedy,
        otherwise=otherwise,
    )


def is_too_many(grown: Growth, limit: Limit | None) -> bool:
    """Whether a counter has something to say: it grew above its limit, is unknown, full, or has no limit."""
    if limit is None or grown.full or isinstance(grown.by, Unknown):
        return True
    return not (isinstance(limit.value, (int, float)) and grown.by <= limit.value)


def nothing_told(grown: Iterable[Growth]) -> bool:
    """Whether the device has none of these counters."""
    return not any(each.is_told for each in grown)


def none_told(grown: Sequence[Growth], pair: Pair[Gpu], why: str, verdicts: Verdicts) -> None:
    """A GPU that has none of these counters by design is skipped."""
    if nothing_told(grown):
        verdicts.found(Verdict.SKIP, subject=pair.subject, message=why)


def untold(pair: Pair[Gpu], what: str, reason: Unknown, verdicts: Verdicts) -> None:
    """A reading that is not there: by design, or not."""
    if Growth(pair.subject, what, reason, reason).is_told:
        verdicts.unknown(subject=pair.subject, what=what, reason=reason)
    else:
        verdicts.found(Verdict.SKIP, subject=pair.subject, message=f"{what} are not told here ({reason})")


def part(gpu: Gpu, name: str) -> Known[int]:
    """One part of what a GPU says of its replaced rows."""
    return gpu.remap if isinstance(gpu.remap, Unknown) else int(getattr(gpu.remap, name))


def of_link(link: Pair[NvLink]) -> tuple[Growth, ...]:
    """The error counters of one NVLink."""
    before, after = link.before, link.after
    return (
        growth(link.subject, "replay", before.replay_errors, after.replay_errors),
        growth(link.subject, "recovery", before.recovery_errors, after.recovery_errors),
        growth(link.subject, "CRC", before.crc_errors, after.crc_errors),
    )


def replays_allowed(per_lane: Limit, lanes: Known[int], generation: Known[int], seconds: float) -> Known[Limit]:
    """How many PCIe replays a link may have in so many seconds; `per_lane` is a list by generation, each a minute."""
    if isinstance(lanes, Unknown):
        return lanes
    if isinstance(generation, Unknown):
        return generation
    table = per_lane.value if isinstance(per_lane.value, tuple) else ()
    if not table or generation < 1:
        return Limit(0, "", per_lane.source)
    rate = float(str(table[min(generation, len(table)) - 1]))
    most = math.ceil(math.ceil(rate * lanes) * seconds / 60)
    return Limit(most, "", f"Gen{generation} x{lanes} over {seconds:.0f} s; {per_lane.source}")
