"""The run folder: what was measured, kept so that it can be judged again, resumed and disputed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.files.bounded import read_bounded
from nodegate.files.gz import Damaged, content, packed_path, read_either
from nodegate.records.evidence import FACTS, Evidence, most_bytes, parse_evidence, to_bytes, unreadable
from nodegate.records.manifest import ADDED, MANIFEST, MISSING, Manifest

EVIDENCE = "evidence"  # the folder of it below the run folder
MAX_RUN_BYTES = 32 << 20  # run.json of 1,250 nodes takes half a megabyte
ANSWERS = ".metrics"  # below it: what a Prometheus answered; no node has such a name
MEASURING = ".measuring"  # no node has such a name. It is deleted at the end, which works on a full disk too
_ROOM = "make room or repair the folder, then continue with --resume"
_CHANGED_STEP = "restore it, or measure this node again (--resume)"
_UNLISTED_STEP = "the run did not write it: delete it, or measure this node again (--resume)"


class RunFolder:
    """One run's folder: `run.json`, `evidence/<node>/<measurement>.json`, the results and the reports."""

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        self.path = path
        self.manifest = manifest or Manifest(path)

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
            if any((chosen / name).exists() for name in ("run.json", "results.jsonl", "results.jsonl.gz", EVIDENCE)):
                raise UsageError(
                    "this folder already contains a run",
                    file=str(chosen),
                    hint="give another folder, or --resume this one",
                )
            (chosen / EVIDENCE).mkdir()
            folder = cls(chosen)
            folder.manifest.begin()
        except OSError as broken:
            raise UsageError(f"cannot make the run folder: {broken.strerror}", file=str(path or "reports")) from broken
        return folder

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        """The folder of an earlier run.

        Raises:
            UsageError: there is no run in it.
        """
        if not (path / EVIDENCE).is_dir():
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

    def write_file(self, name: str, raw: bytes) -> None:
        """Write a file of the run as a whole, completely or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        self._write(self.path / name, raw)

    def read_file(self, name: str) -> bytes:
        """Read a file of the run as a whole.

        Raises:
            UsageError: it is missing, or larger than any.
        """
        file = self.path / name
        try:
            raw = read_bounded(file, MAX_RUN_BYTES)
        except OSError as broken:
            raise UsageError(f"cannot be read: {broken.strerror}", file=str(file)) from broken
        if len(raw) > MAX_RUN_BYTES:
            raise UsageError(f"is larger than {MAX_RUN_BYTES >> 20} MiB", file=str(file))
        return raw

    def evidence_file(self, node: str, measurement: str = FACTS) -> Path:
        """The file with the evidence of a node's measurement; with `.gz` after its name where it is compressed."""
        return self.path / EVIDENCE / node / f"{measurement}.json"

    def write_evidence(self, evidence: Evidence) -> None:
        """Store the result of a measurement, completely or not at all.

        Raises:
            UsageError: it cannot be written.
            ValueError: it cannot be written as JSON, or is larger than what is read again.
            RecursionError: it nests too deep.
        """
        raw = to_bytes(evidence)
        file = self.evidence_file(evidence.node, evidence.measurement)
        if self._note(file, raw):
            self._write(file, raw)
            packed_path(file).unlink(missing_ok=True)  # of an earlier run, which is resumed

    def read_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        """The evidence of an earlier measurement; None if there is none yet.

        A file that cannot be read, or is not the one that was written, gives an error with its name.
        """
        file = self.evidence_file(node, measurement)
        most = most_bytes(measurement)
        try:
            file, raw = read_either(file, most)
            text = content(file, raw, most)
        except FileNotFoundError:
            return None
        except OSError as broken:
            return unreadable(node, measurement, f"{file} cannot be read: {broken.strerror}")
        except Damaged as broken:
            return unreadable(node, measurement, f"{file} {broken}", _CHANGED_STEP)
        evidence = parse_evidence(text, node=node, measurement=measurement, file=str(file))
        if not evidence.error and (what := self.manifest.trouble(self._name(file), raw)):
            return unreadable(node, measurement, f"{file} {what}", _UNLISTED_STEP if what == ADDED else _CHANGED_STEP)
        return evidence

    def keep_answer(self, name: str, raw: bytes) -> None:
        """Store an answer of a Prometheus, completely or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        file = self.path / EVIDENCE / ANSWERS / name
        if self._note(file, raw):
            self._write(file, raw)

    def answers(self) -> Path | None:
        """The folder of what a Prometheus answered; None if none was asked.

        Raises:
            UsageError: a file of it is not the one that was written.
        """
        folder = self.path / EVIDENCE / ANSWERS
        if not folder.is_dir():
            return None
        odd = [each for each in self.manifest.odd_files() if each.node == ANSWERS]
        if odd:
            raise UsageError(f"{odd[0]}: restore it, or delete {folder}")
        return folder

    def recorded_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        """As `read_evidence`, of a run that has ended: what its manifest lists and is gone is an error."""
        evidence, file = self.read_evidence(node, measurement), self.evidence_file(node, measurement)
        names = self._name(file), self._name(packed_path(file))
        if evidence is None and any(map(self.manifest.lists, names)):
            return unreadable(node, measurement, f"{file} {MISSING}", _CHANGED_STEP)
        return evidence

    def drop_evidence(self, node: str, measurement: str = FACTS) -> None:
        """Delete the evidence of a measurement.

        Raises:
            UsageError: it cannot be deleted.
        """
        file = self.evidence_file(node, measurement)
        try:
            file.unlink(missing_ok=True)
            packed_path(file).unlink(missing_ok=True)
        except OSError as broken:
            hint = "move it away"
            raise UsageError(f"cannot be measured again: {broken.strerror}", file=str(file), hint=hint) from broken

    def go_on(self) -> None:
        """Continue with the manifest of an earlier run; one of an earlier release gets its first.

        Raises:
            UsageError: it cannot be written.
        """
        try:
            self.manifest.begin()
        except OSError as broken:
            raise UsageError(f"the manifest cannot be written: {broken.strerror}", file=str(self.path)) from broken

    def measuring(self) -> None:
        """Announce to waiting processes that more evidence will come.

        Raises:
            UsageError: it cannot be written.
        """
        self._write(self.path / EVIDENCE / MEASURING, b"")

    def measured(self) -> None:
        """Announce that no more evidence will come, and close the manifest."""
        with contextlib.suppress(OSError):  # a full disk: its lines are there, some files have several
            self.manifest.close()
        with contextlib.suppress(OSError):  # deleted with its folder, perhaps, which means the same
            (self.path / EVIDENCE / MEASURING).unlink()

    @property
    def is_measured(self) -> bool:
        """Whether no more evidence will come."""
        return not (self.path / EVIDENCE / MEASURING).exists()

    def discard(self) -> None:
        """Delete the folder again, with the files that every run writes first; other files stay."""
        with contextlib.suppress(OSError):
            for name in ("run.json", "results.jsonl.gz", MANIFEST):
                (self.path / name).unlink(missing_ok=True)
            (self.path / EVIDENCE).rmdir()
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

    def _name(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def _note(self, file: Path, raw: bytes) -> bool:
        try:
            return self.manifest.add({self._name(file): raw})
        except OSError as broken:
            raise UsageError(f"cannot be written: {broken.strerror}", file=str(file), hint=_ROOM) from broken

    def _write(self, file: Path, raw: bytes) -> None:
        try:
            file.parent.mkdir(exist_ok=True)
            write_whole(file, raw)
        except OSError as broken:
            raise UsageError(f"cannot be written: {broken.strerror}", file=str(file), hint=_ROOM) from broken


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
