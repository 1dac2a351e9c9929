"""The probe document of one node: bounded, checked, and turned into typed facts one section at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "nodegate.probe/1"
MAX_DOCUMENT_BYTES = 2 << 20
_MOST_SECONDS = 1e12


@dataclass(frozen=True)
class ProbeDocument:
    """What the probe brought. `received_epoch_s` and `round_trip_s` are by the controller's clock."""

    sections: Mapping[str, object]
    uid: int
    epoch_s: float
    duration_s: float
    received_epoch_s: float = 0.0
    round_trip_s: float = 0.0
    raw: Mapping[str, object] = field(default_factory=dict)


def document_of(
    value: Mapping[str, object],
    *,
    received_epoch_s: float = 0.0,
    round_trip_s: float = 0.0,
) -> ProbeDocument:
    """The document from its JSON object.

    Args:
        value: what the probe wrote, or what a recording kept.
        received_epoch_s: the controller's clock when it came; 0 when nobody knows (a bare recording).
        round_trip_s: how long the controller waited for it.

    Raises:
        CannotMeasure: it is not what a probe of this version writes.
    """
    if value.get("schema") != SCHEMA:
        shown = str(value.get("schema", ""))[:40]
        raise CannotMeasure(
            f"the probe's answer has schema {shown!r} instead of {SCHEMA!r}",
            next_step="judge it with the version of nodegate that measured it",
        )
    sections, uid = value.get("sections"), value.get("uid")
    if not isinstance(sections, dict) or not isinstance(uid, int):
        raise CannotMeasure("the probe's answer has no sections", next_step="measure this node again")
    return ProbeDocument(
        sections=sections,
        uid=uid,
        epoch_s=_seconds(value.get("epoch_s")),
        duration_s=_seconds(value.get("duration_s")),
        received_epoch_s=received_epoch_s,
        round_trip_s=round_trip_s,
        raw=value,
    )


def _seconds(value: object) -> float:
    """The number of seconds; 0 for what can be none. A recording never went through the checks of the wire."""
    known = isinstance(value, (int, float)) and abs(value) < _MOST_SECONDS  # not for nan
    return float(value) if known else 0.0  # type: ignore[arg-type]
