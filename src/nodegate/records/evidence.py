"""The evidence of a measurement: what was read of a node, or why it was not, and its form in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from nodegate.errors import Busy, CannotMeasure, Unreachable
from nodegate.files.strict_json import loads
from nodegate.records.taken_key import TakenKey, from_json
from nodegate.text import shown

SCHEMA = "nodegate.evidence/1"
FACTS = "facts"
MAX_FACTS_BYTES = 4 << 20  # of facts, and of a bare recording
MAX_MEASURED_BYTES = 32 << 20  # what a node of 1,250 measured with each other takes
BUSY = "busy"
LONGEST_S = 1e12  # longer than any clock says
MOST_SAID = 1000  # characters of a reason
_COPIED_STEP = "it was copied there: restore the node's own file, or measure this node again (--resume)"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of one measurement of one node: a document, or the reason why there is none.

    Times are seconds of the controller's clock. `round_trip_s` is how long it waited for the document itself;
    `received_epoch_s` is 0 if unknown (a bare recording). `taken_keys` are host keys that the run did not know.
    """

    node: str
    measurement: str
    started_epoch_s: float
    duration_s: float
    received_epoch_s: float = 0.0
    round_trip_s: float = 0.0
    document: Mapping[str, object] | None = None
    error: CannotMeasure | None = None
    taken_keys: tuple[TakenKey, ...] = ()


def most_bytes(measurement: str) -> int:
    """How large the evidence of a measurement may be, written and read."""
    return MAX_FACTS_BYTES if measurement.startswith(FACTS) else MAX_MEASURED_BYTES


def to_bytes(evidence: Evidence) -> bytes:
    """A file of evidence.

    Raises:
        ValueError: it cannot be written as JSON, or is larger than what is read again.
        RecursionError: it nests too deep.
    """
    fields: dict[str, object] = {
        "schema": SCHEMA,
        "node": evidence.node,
        "measurement": evidence.measurement,
        "started_epoch_s": round(evidence.started_epoch_s, 3),
        "duration_s": round(evidence.duration_s, 3),
    }
    if evidence.error:
        fields["error"] = _said(evidence.error)
    else:
        fields["received_epoch_s"] = round(evidence.received_epoch_s, 6)
        fields["round_trip_s"] = round(evidence.round_trip_s, 6)
        if evidence.taken_keys:
            fields["taken_host_keys"] = [asdict(key) for key in evidence.taken_keys]
        fields["document"] = evidence.document
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    raw, most = text.encode("utf-8", "backslashreplace"), most_bytes(evidence.measurement)
    if len(raw) > most:
        raise ValueError(f"it is larger than {most >> 20} MiB")
    return raw


def parse_evidence(raw: bytes, *, node: str, measurement: str, file: str) -> Evidence:
    """Evidence in a run folder, or a recording with the bare document.

    A file that cannot be read, or is the evidence of another node or measurement, gives an error with its name.
    """
    value = _read(raw, most_bytes(measurement))
    if isinstance(value, str):
        return unreadable(node, measurement, f"{file} {value}")
    if whose := _of_another(value, node, measurement):
        return unreadable(node, measurement, f"{file} {whose}", _COPIED_STEP)
    if value.get("schema") != SCHEMA:
        return Evidence(
            node, measurement, _number(value.get("epoch_s")), _number(value.get("duration_s")), document=value
        )
    started, lasted = _number(value.get("started_epoch_s")), _number(value.get("duration_s"))
    document, said = value.get("document"), value.get("error")
    if isinstance(document, dict):
        received, waited = _number(value.get("received_epoch_s")), _number(value.get("round_trip_s"))
        taken = from_json(value.get("taken_host_keys"))
        return Evidence(node, measurement, started, lasted, received, waited, document=document, taken_keys=taken)
    return Evidence(node, measurement, started, lasted, error=_error(said if isinstance(said, dict) else {}, node))


def _read(raw: bytes, most: int) -> dict[str, object] | str:
    """The object in a file, or why there is none."""
    if len(raw) > most:
        return f"is larger than {most >> 20} MiB"
    try:
        value = loads(raw)
    except (ValueError, RecursionError) as fault:
        return f"is not valid JSON: {fault}"
    return value if isinstance(value, dict) else "does not contain a JSON object"


def _of_another(value: Mapping[str, object], node: str, measurement: str) -> str:
    """In words, which other node or measurement this is of. A bare recording says at most what was measured."""
    is_bare = value.get("schema") != SCHEMA
    whose, of = (node if is_bare else value.get("node")), value.get("measurement", measurement if is_bare else None)
    if whose != node:
        return f"is the evidence of {shown(whose)}" if whose else "does not name its node"
    if of != measurement:
        return f"is the evidence of {shown(of)}, not of {measurement}" if of else "does not name its measurement"
    return ""


def unreadable(node: str, measurement: str, why: str, next_step: str = "measure this node again") -> Evidence:
    """The evidence of a file that cannot be used."""
    error = CannotMeasure(f"the evidence {why}", next_step=next_step)
    return Evidence(node, measurement, 0.0, 0.0, error=error)


def _said(error: CannotMeasure) -> dict[str, str]:
    kind = error.kind if isinstance(error, Unreachable) else BUSY if isinstance(error, Busy) else ""
    said = {"kind": kind, "reason": error.bare, "next_step": error.next_step}
    codes = {"blocked_by": error.blocked_by, "lacks": error.lacks, "whose": error.whose}
    return {**said, **{name: code for name, code in codes.items() if code}}


def _error(said: Mapping[str, object], node: str) -> CannotMeasure:
    reason = str(said.get("reason", "the evidence has neither a document nor an error"))[:MOST_SAID]
    step = str(said.get("next_step", "measure this node again"))[:MOST_SAID]
    names = ("kind", "blocked_by", "lacks", "whose")
    kind, blocked_by, lacks, whose = (str(said.get(name, ""))[:MOST_SAID] for name in names)
    if not whose and reason.startswith(f"{node}: "):  # the releases before 0.3 wrote both as one text
        whose, reason = node, reason.removeprefix(f"{node}: ")
    if kind == BUSY:
        return Busy(reason, next_step=step, whose=whose)
    if kind:
        return Unreachable(kind, reason, next_step=step, whose=whose)
    return CannotMeasure(reason, next_step=step, blocked_by=blocked_by, lacks=lacks, whose=whose)


def _number(value: object) -> float:
    """The number of seconds; 0 if it is not a number, as for unknown."""
    known = isinstance(value, (int, float)) and abs(value) < LONGEST_S  # false for nan
    return float(value) if known else 0.0  # type: ignore[arg-type]
