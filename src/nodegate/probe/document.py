"""The probe document of one node, with the release that recorded it and the sections that this one knew.

A section that came later could not be recorded, which says nothing of the node. The controller writes both into a
document when it arrives, so that no node can claim that a section is new.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from nodegate.errors import CannotMeasure, NotDone
from nodegate.release import suite_version

SCHEMA = "nodegate.probe/1"
MAX_DOCUMENT_BYTES = 2 << 20
_MOST_SECONDS = 1e12
KEY = "recorder"  # in the document


@dataclass(frozen=True)
class Recorder:
    """A release of nodegate and the sections of the probe document that it knows."""

    version: str
    sections: frozenset[str]

    def to_json(self) -> dict[str, object]:
        """As it is written into the document."""
        return {"version": self.version, "sections": sorted(self.sections)}


_FIRST = (
    "clock driver environment infiniband jobs kernel_log limits mounts netdev "
    "nvidia_smi nvml pci services software system"
)
FIRST = Recorder("0.1.0", frozenset(_FIRST.split()))


def today() -> Recorder:
    """This release."""
    from nodegate.node_side.probe.main import SECTIONS  # noqa: PLC0415 - judging evidence needs no probe

    return Recorder(suite_version(), frozenset((*SECTIONS, "nvidia_smi")))


def recorder_of(document: Mapping[str, object]) -> Recorder:
    """Who recorded a document; the first release if it does not say. Every release knows that one's sections."""
    said = document.get(KEY)
    version, sections = (said.get("version"), said.get("sections")) if isinstance(said, dict) else (None, None)
    if not isinstance(version, str) or not isinstance(sections, list):
        return FIRST
    return Recorder(version, FIRST.sections.union(name for name in sections if isinstance(name, str)))


def refuse_later_sections(recorder: Recorder, present: Container[str], needed: tuple[str, ...]) -> None:
    """Say so where a fact needs a section that the recorder did not know.

    Raises:
        NotDone: one of the `needed` sections is not among those `present`, and the recorder did not know it.
    """
    if any(name not in recorder.sections and name not in present for name in needed):
        raise NotDone(f"not recorded then: this evidence was recorded by nodegate {recorder.version}")


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
