"""Counters against limits per hour, over whatever time was watched."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.verdict import Limit

if TYPE_CHECKING:
    from nodegate.unknown import Known

HOUR_S = 3600.0


def allowed(per_hour: Limit, seconds: float) -> Limit | None:
    """What a limit per hour allows in so many seconds, rounded up: one event in a short window is no rate."""
    if isinstance(per_hour.value, bool) or not isinstance(per_hour.value, (int, float)):
        return None
    most = math.ceil(per_hour.value * max(seconds, 0.0) / HOUR_S)
    source = f"{per_hour.value:g} an hour over {_time(seconds)}; {per_hour.source}"
    return replace(per_hour, value=most, unit="", source=source)


def none_allowed(why: str) -> Limit:
    """Not a single event."""
    return Limit(0, "", why)


def whole(count: Known[float]) -> Known[int]:
    """A count without its decimals."""
    return int(count) if isinstance(count, (int, float)) else count


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
