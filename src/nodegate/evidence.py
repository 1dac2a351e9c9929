"""The run folder: what was measured, kept so that it can be judged again, resumed and disputed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import Busy, CannotMeasure, Unreachable, UsageError
from nodegate.files.atomic import replacing
from nodegate.files.bounded import read_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "nodegate.evidence/1"
FACTS = "facts"
OLDER_NAMES = {"burn": "gpu_burn"}  # what releases before 0.2 called the evidence of a measurement
MAX_EVIDENCE_BYTES = 4 << 20
MAX_RUN_BYTES = 32 << 20  # run.json of 1,250 nodes takes half a megabyte
BUSY = "busy"
_BLOCKED = re.compile(r"blocked by (?P<check>[a-z][a-z0-9_]*\.[a-z0-9_]+)(?::|$)")
LONGEST_S = 1e12  # longer than any clock says
MOST_SAID = 1000  # characters of a reason
MEASURING = ".measuring"  # no node has such a name. It is deleted at the end, which works on a full disk too


@dataclass(frozen=True)
class Evidence:
    """The result of one measurement of one node: a document, or the reason why there is none.

    Times are seconds of the controller's clock. `round_trip_s` is how long it waited for the document itself;
    `received_epoch_s` is 0 if unknown (a bare recording).
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
        """Make the folder; by default reports/<UTC time>-<profile>/ below the working folder.

        Raises:
            UsageError: the folder cannot be made, or already contains a run.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_epoch_s))
        try:
            chosen = _new(Path("reports") / f"{stamp}-{profile}") if path is None else path
            chosen.mkdir(parents=True, exist_ok=True)
            if any((chosen / name).exists() for name in ("run.json", "results.jsonl", "evidence")):
                raise UsageError(
                    "this folder already contains a run",
                    file=str(chosen),
                    hint="give another folder, or --resume this one",
                )
            (chosen / "evidence").mkdir()
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
            raise UsageError(
                "this is not a run folder: it has no evidence/", file=str(path), hint="give a folder of reports/"
            )
        return cls(path)

    def hold(self) -> None:
        """Keep other runs out of this folder until this process ends.

        Raises:
            UsageError: another run uses it.
        """
        try:
            self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for it to end"
            raise UsageError("another run uses this folder", file=str(self.path), hint=hint) from None
        except OSError:  # a file system without locks: then this is up to the user
            return

    def write_json(self, name: str, value: object) -> None:
        """Write a JSON file of the run, completely or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        self._write(self.path / name, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")

    def read_json(self, name: str) -> dict[str, object]:
        """Read a JSON file of the run.

        Raises:
            UsageError: it is missing or broken.
        """
        file = self.path / name
        try:
            raw = read_bounded(file, MAX_RUN_BYTES)
            if len(raw) > MAX_RUN_BYTES:
                raise UsageError(f"is larger than {MAX_RUN_BYTES >> 20} MiB", file=str(file))
            value = json.loads(raw)
        except OSError as broken:
            raise UsageError(f"cannot be read: {broken.strerror}", file=str(file)) from broken
        except (ValueError, RecursionError) as broken:
            raise UsageError(f"is not valid JSON: {broken}", file=str(file)) from broken
        if not isinstance(value, dict):
            raise UsageError("is not a JSON object", file=str(file))
        return value

    def evidence_file(self, node: str, measurement: str = FACTS) -> Path:
        """The file with the evidence of a node's measurement."""
        return self.path / "evidence" / node / f"{measurement}.json"

    def write_evidence(self, evidence: Evidence) -> None:
        """Store the result of a measurement, completely or not at all.

        Raises:
            UsageError: it cannot be written.
            ValueError: it cannot be written as JSON.
            RecursionError: it nests too deep.
        """
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
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self._write(self.evidence_file(evidence.node, evidence.measurement), text)

    def read_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        """The evidence of an earlier measurement; None if there is none yet.

        A file that cannot be read gives an error with its name.
        """
        file = self.evidence_file(node, measurement)
        if measurement in OLDER_NAMES and not file.exists():
            file = self.evidence_file(node, OLDER_NAMES[measurement])
        try:
            raw = read_bounded(file, MAX_EVIDENCE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as broken:
            return _unreadable(node, measurement, f"{file} cannot be read: {broken.strerror}")
        return parse_evidence(raw, node=node, measurement=measurement, file=str(file))

    def drop_evidence(self, node: str, measurement: str = FACTS) -> None:
        """Delete the evidence of a measurement.

        Raises:
            UsageError: it cannot be deleted.
        """
        file = self.evidence_file(node, measurement)
        try:
            file.unlink(missing_ok=True)
            if measurement in OLDER_NAMES:
                self.evidence_file(node, OLDER_NAMES[measurement]).unlink(missing_ok=True)
        except OSError as broken:
            hint = "move it away"
            raise UsageError(f"cannot be measured again: {broken.strerror}", file=str(file), hint=hint) from broken

    def measuring(self) -> None:
        """Announce to waiting processes that more evidence will come.

        Raises:
            UsageError: it cannot be written.
        """
        self._write(self.path / "evidence" / MEASURING, "")

    def measured(self) -> None:
        """Announce that no more evidence will come."""
        with contextlib.suppress(OSError):  # deleted with its folder, perhaps, which means the same
            (self.path / "evidence" / MEASURING).unlink()

    @property
    def is_measured(self) -> bool:
        """Whether no more evidence will come."""
        return not (self.path / "evidence" / MEASURING).exists()

    def discard(self) -> None:
        """Delete the folder again, with the files that every run writes first; other files stay."""
        with contextlib.suppress(OSError):
            for name in ("run.json", "results.jsonl"):
                (self.path / name).unlink(missing_ok=True)
            (self.path / "evidence").rmdir()
            self.path.rmdir()

    def point_latest(self) -> None:
        """Make `latest`, next to this folder, point to it."""
        temporary = self.path.parent / f".latest.{os.getpid()}"
        with contextlib.suppress(OSError):  # a file system without links: the folder's own name still shows it
            temporary.symlink_to(self.path.name)
            try:
                os.replace(temporary, self.path.parent / "latest")  # noqa: PTH105
            finally:
                temporary.unlink(missing_ok=True)

    def _write(self, file: Path, text: str) -> None:
        try:
            file.parent.mkdir(exist_ok=True)
            with replacing(file) as stream:
                stream.write(text)
        except OSError as broken:
            hint = "make room or repair the folder, then continue with --resume"
            raise UsageError(f"cannot be written: {broken.strerror}", file=str(file), hint=hint) from broken


def parse_evidence(raw: bytes, *, node: str, measurement: str, file: str) -> Evidence:
    """Evidence in a run folder, or a recording with the bare document.

    A file that cannot be read gives an error with its name.
    """
    if len(raw) > MAX_EVIDENCE_BYTES:
        return _unreadable(node, measurement, f"{file} is larger than {MAX_EVIDENCE_BYTES >> 20} MiB")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        return _unreadable(node, measurement, f"{file} is not valid JSON: {fault}")
    if not isinstance(value, dict):
        return _unreadable(node, measurement, f"{file} does not contain a JSON object")
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


def _unreadable(node: str, measurement: str, why: str) -> Evidence:
    error = CannotMeasure(f"the evidence {why}", next_step="measure this node again")
    return Evidence(node, measurement, 0.0, 0.0, error=error)


def _said(error: CannotMeasure) -> dict[str, str]:
    kind = error.kind if isinstance(error, Unreachable) else BUSY if isinstance(error, Busy) else ""
    said = {"kind": kind, "reason": error.reason, "next_step": error.next_step}
    return {**said, "blocked_by": error.blocked_by} if error.blocked_by else said


def _error(said: Mapping[str, object]) -> CannotMeasure:
    reason = str(said.get("reason", "the evidence has neither a document nor an error"))[:MOST_SAID]
    step = str(said.get("next_step", "measure this node again"))[:MOST_SAID]
    kind = str(said.get("kind", ""))[:MOST_SAID]
    if kind == BUSY:
        return Busy(reason, next_step=step)
    if kind:
        return Unreachable(kind, reason, next_step=step)
    blocked = _BLOCKED.match(reason)  # releases before 0.2 had it in the reason alone
    blocked_by = str(said.get("blocked_by", "") or (blocked["check"] if blocked else ""))[:MOST_SAID]
    return CannotMeasure(reason, next_step=step, blocked_by=blocked_by)


def _number(value: object) -> float:
    """The number of seconds; 0 if it is not a number, as for unknown."""
    known = isinstance(value, (int, float)) and abs(value) < LONGEST_S  # false for nan
    return float(value) if known else 0.0  # type: ignore[arg-type]


def _new(path: Path) -> Path:
    """A new folder: -2, -3 ... are added if runs start within one second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count, chosen = 1, path
    while True:
        with contextlib.suppress(FileExistsError):
            chosen.mkdir()
            return chosen
        count += 1
        chosen = path.with_name(f"{path.name}-{count}")
