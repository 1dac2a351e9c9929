"""The probe document of one node: bounded, checked, and turned into typed facts one section at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodegate.errors import CannotMeasure
from nodegate.probe.recorder import FIRST, KEY, Recorder, recorder_of

SCHEMA = "nodegate.probe/1"
MAX_DOCUMENT_BYTES = 2 << 20
_MOST_SECONDS = 1e12


@dataclass(frozen=True)
class ProbeDocument:
    """The probe's answer. `received_epoch_s` and `round_trip_s` are by the controller's clock."""

    sections: Mapping[str, object]
    uid: int
    epoch_s: float
    duration_s: float
    received_epoch_s: float = 0.0
    round_trip_s: float = 0.0
    raw: Mapping[str, object] = field(default_factory=dict)
    recorder: Recorder = FIRST

    def recorded_by(self, recorder: Recorder) -> ProbeDocument:
        """The same document, with its recorder."""
        return replace(self, recorder=recorder, raw={**self.raw, KEY: recorder.to_json()})


def document_of(
    value: Mapping[str, object], *, received_epoch_s: float = 0.0, round_trip_s: float = 0.0
) -> ProbeDocument:
    """The document from its JSON object.

    Args:
        value: the probe's answer, or a recording.
        received_epoch_s: the controller's clock when it arrived; 0 if unknown (a bare recording).
        round_trip_s: how long the controller waited for it.

    Raises:
        CannotMeasure: it is not from a probe of this version.
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
        recorder=recorder_of(value),
    )


def _seconds(value: object) -> float:
    """The number of seconds; 0 if it is invalid. A recording is not checked on the wire."""
    known = isinstance(value, (int, float)) and abs(value) < _MOST_SECONDS  # false for nan
    return float(value) if known else 0.0  # type: ignore[arg-type]
