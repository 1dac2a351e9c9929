"""The probe document of one node: bounded, checked, and turned into typed facts one section at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "nodegate.probe/1"
MAX_DOCUMENT_BYTES = 2 << 20


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
