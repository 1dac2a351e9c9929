"""The run folder: what was measured, kept so that it can be judged again, resumed and disputed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import Busy, CannotMeasure, Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "nodegate.evidence/1"
FACTS = "facts"
MAX_EVIDENCE_BYTES = 4 << 20
BUSY = "busy"
COMPLETE = "complete"  # marks, in the evidence folder, that the campaign has ended


@dataclass(frozen=True)
class Evidence:
    """What one measurement of one node left: a document, or the reason why there is none.

    Times are seconds of the controller's clock. `round_trip_s` is how long it waited for the document itself;
    `received_epoch_s` is 0 when nobody knows (a bare recording).
    """

    node: str
    measurement: str
    started_epoch_s: float
    duration_s: float
    received_epoch_s: float = 0.0
    round_trip_s: float = 0.0
    document: Mapping[str, object] | None = None
    error: CannotMeasure | None = None


class RunFolder:
    """One run's folder: `run.json`, `evidence/<node>/<measurement>.json`, the results and the reports."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path | None, *, profile: str, started_epoch_s: float) -> RunFolder:
        """Make the folder; by default reports/<UTC time>-<profile>/ below the working folder, and point `latest` to it.

        Raises:
            UsageError: the folder cannot be made, or already holds a run.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_epoch_s))
        try:
            chosen = _fresh(Path("reports") / f"{stamp}-{profile}") if path is None else path
            chosen.mkdir(parents=True, exist_ok=True)
            if (chosen / "results.jsonl").exists():
                raise UsageError(
                    "this folder already holds a run", file=str(chosen), hint="name another, or --resume it"
                )
            (chosen / "evidence").mkdir(exist_ok=True)
            if path is None:
                _point_latest(chosen)
        except OSError as broken:
            raise UsageError(f"cannot make the run folder: {broken.strerror}", file=str(path or "reports")) from broken
        return cls(chosen)

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """The folder of an earlier run.

        Raises:
            UsageError: there is no run in it.
        """
        if not (path / "evidence").is_dir():
            raise UsageError("this is no run folder: it has no evidence/", file=str(path), hint="name one of reports/")
        return cls(path)

    def write_json(self, name: str, value: object) -> None:
        """Write a JSON file of the run's own, whole or not at all."""
        write_whole(self.path / name, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")

    def read_json(self, name: str) -> dict[str, object]:
        """Read a JSON file of the run's own.

        Raises:
            UsageError: it is missing or broken.
        """
        file = self.path / name
        try:
            value = json.loads(file.read_text())
        except (OSError, ValueError) as broken:
            raise UsageError(f"cannot be read: {broken}", file=str(file)) from broken
        if not isinstance(value, dict):
            raise UsageError("is no JSON object", file=str(file))
        return value

    def evidence_file(self, node: str, measurement: str = FACTS) -> Path:
        """Where the evidence of a node's measurement stands."""
        return self.path / "evidence" / node / f"{measurement}.json"

    def write_evidence(self, evidence: Evidence) -> None:
        """Keep what a measurement brought, whole or not at all."""
        value: dict[str, object] = {
            "schema": SCHEMA,
            "node": evidence.node,
            "measurement": evidence.measurement,
            "started_epoch_s": round(evidence.started_epoch_s, 3),
            "duration_s": round(evidence.duration_s, 3),
        }
        if evidence.error:
            value["error"] = _said(evidence.error)
        else:
            value["received_epoch_s"] = round(evidence.received_epoch_s, 6)
            value["round_trip_s"] = round(evidence.round_trip_s, 6)
            value["document"] = evidence.document
        file = self.evidence_file(evidence.node, evidence.measurement)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def read_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        """The evidence of an earlier measurement; None when there is none yet."""
        file = self.evidence_file(node, measurement)
        try:
            with file.open("rb") as stream:
                raw = stream.read(MAX_EVIDENCE_BYTES + 1)
        except FileNotFoundError:
            return None
        return parse_evidence(raw, node=node, measurement=measurement, file=str(file))

    def mark_complete(self) -> None:
        """Say that no more evidence will come."""
        (self.path / "evidence" / COMPLETE).touch()

    @property
    def is_complete(self) -> bool:
        """Whether the campaign that fills this folder has ended."""
        return (self.path / "evidence" / COMPLETE).exists()


def parse_evidence(raw: bytes, *, node: str, measurement: str, file: str) -> Evidence:
    """Evidence as kept in a run folder, or a recording that holds the bare document.

    What cannot be read is evidence of nothing: an error that names the file.
    """
    broken = ""
    value: object = None
    if len(raw) > MAX_EVIDENCE_BYTES:
        broken = f"is larger than {MAX_EVIDENCE_BYTES >> 20} MiB"
    else:
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError) as fault:
            broken = f"is no JSON: {fault}"
    if not isinstance(value, dict):
        broken = broken or "holds no JSON object"
        error = CannotMeasure(f"the evidence {file} {broken}", next_step="measure this node again")
        return Evidence(node, measurement, 0.0, 0.0, error=error)
    if value.get("schema") != SCHEMA:
        return Evidence(
            node, measurement, _number(value.get("epoch_s")), _number(value.get("duration_s")), document=value
        )
    started, lasted = _number(value.get("started_epoch_s")), _number(value.get("duration_s"))
    document, said = value.get("document"), value.get("error")
    if isinstance(document, dict):
        received, waited = _number(value.get("received_epoch_s")), _number(value.get("round_trip_s"))
        return Evidence(node, measurement, started, lasted, received, waited, document=document)
    return Evidence(node, measurement, started, lasted, error=_error(said if isinstance(said, dict) else {}))


def _said(error: CannotMeasure) -> dict[str, str]:
    kind = error.kind if isinstance(error, Unreachable) else BUSY if isinstance(error, Busy) else ""
    return {"kind": kind, "reason": error.reason, "next_step": error.next_step}


def _error(said: Mapping[str, object]) -> CannotMeasure:
    reason = str(said.get("reason", "the evidence holds neither a document nor an error"))
    step = str(said.get("next_step", "measure this node again"))
    kind = str(said.get("kind", ""))
    if kind == BUSY:
        return Busy(reason, next_step=step)
    return Unreachable(kind, reason, next_step=step) if kind else CannotMeasure(reason, next_step=step)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def write_whole(file: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new, never a part."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        os.replace(name, file)  # noqa: PTH105 - the atomic call, named as such
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _fresh(path: Path) -> Path:
    """The path, or with -2, -3 ... where runs start within one second."""
    count, chosen = 1, path
    while chosen.exists():
        count += 1
        chosen = path.with_name(f"{path.name}-{count}")
    return chosen


def _point_latest(folder: Path) -> None:
    link = folder.parent / "latest"
    temporary = folder.parent / f".latest.{os.getpid()}"
    with contextlib.suppress(OSError):  # a file system without links: the folder's own name still says it
        temporary.symlink_to(folder.name)
        os.replace(temporary, link)  # noqa: PTH105
