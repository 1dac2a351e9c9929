"""The files of an archive, from the run folder, the fleet's record and what the user names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodegate.causes.details import details
from nodegate.errors import UsageError
from nodegate.files.bounded import read_bounded
from nodegate.files.gz import Damaged, content
from nodegate.files.strict_json import loads
from nodegate.past import database
from nodegate.past.change import margins_of_suite
from nodegate.past.questions import whom
from nodegate.past.story import lines as story
from nodegate.records.evidence import SCHEMA, most_bytes
from nodegate.records.manifest import ADDED, CHANGED
from nodegate.records.store import to_bytes
from nodegate.rma.bug_report import NAME as BUG_REPORT
from nodegate.rma.bug_report import bug_report
from nodegate.rma.clean import Clean
from nodegate.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nodegate.records.run_folder import RunFolder
    from nodegate.rma.subject import Subject

MOST_FILES, MOST_BYTES = 64, 256 << 20  # of evidence
_LONGEST = 1 << 16


@dataclass
class Contents:
    """The files by their names in the archive, what was left out and why, and which files are as the run has them."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    of_run: set[str] = field(default_factory=set)


def contents(
    about: Subject, folder: RunFolder, clean: Clean, *, record: Path, given: Path | None, redacted: bool
) -> Contents:
    """All of them but README.txt.

    Raises:
        UsageError: the bug report that is `given` cannot be read or is another node's, or the record is damaged.
    """
    found = Contents()
    evidence = dict(_evidence(about, folder, found))
    history = {name: list(_history(record, who, found)) for name, who in _asked_of_the_past(about).items()}
    whole = loads(to_bytes(about.node))
    for each in (*evidence.values(), whole, *history.values(), list(about.serials.values())):
        clean.learn(each)
    for name, value in evidence.items():
        cleaned = clean.value(value)
        raw = found.files.pop(name)
        found.files[name] = raw if cleaned == value else _dumped(cleaned)
        found.of_run |= {name} if cleaned == value else set()
    found.files["findings.json"] = clean.document({"node": whole, "causes": loads(to_bytes(list(about.causes)))})
    texts = {
        "findings.txt": details(about.node.records, about.name, everything=True),
        "serials.txt": (f"{part}: {serial}" for part, serial in sorted(about.serials.items())),
        "kernel-log.txt": _kernel_lines(evidence, found),
        **{f"{name}.txt": lines for name, lines in history.items()},
    }
    for name, lines in texts.items():
        if text := "".join(f"{visible(clean.text(line), most=_LONGEST)}\n" for line in lines):
            found.files[name] = text.encode("utf-8", "backslashreplace")
    _add_bug_report(about, folder, found, given=given, redacted=redacted)
    return found


def _evidence(about: Subject, folder: RunFolder, found: Contents) -> Iterator[tuple[str, object]]:
    """Each document of the node's folder; its bytes go into `found`."""
    place, total = folder.path / "evidence" / about.name, 0
    if place.is_symlink() or not place.is_dir():
        found.left_out.append("evidence: the run has none of this node")
        return
    files = sorted((*place.glob("[!.]*.json"), *place.glob("[!.]*.json.gz")))
    for file in files:
        read = _read(about, folder, file) if len(found.files) < MOST_FILES else "one of more files than are taken"
        if not isinstance(read, str):
            total += len(read[0])
            read = read if total <= MOST_BYTES else f"more than {MOST_BYTES >> 20} MiB together"
        if isinstance(read, str):
            found.left_out.append(f"evidence/{visible(file.name)}: {read}")
            continue
        name = f"evidence/{file.name.removesuffix('.gz')}"
        found.files[name], value = read
        yield name, value


def _read(about: Subject, folder: RunFolder, file: Path) -> tuple[bytes, object] | str:
    """The text and the value of a file of evidence, or why it is left out: what a link leads to is not evidence."""
    if file.is_symlink():
        return "a link"
    most = most_bytes(file.name.partition(".")[0])
    try:
        raw = read_bounded(file, most)
        text = content(file, raw, most)
        value = loads(text)
    except (OSError, Damaged, ValueError, RecursionError) as error:
        return f"not readable: {visible(str(error))}"
    if len(text) > most:
        return f"larger than {most >> 20} MiB"
    whose = value.get("node") if isinstance(value, dict) and value.get("schema") == SCHEMA else None
    if whose != about.name:
        return "another node's" if whose else "it does not say whose it is"
    if (what := folder.manifest.trouble(file.relative_to(folder.path).as_posix(), raw)) in (ADDED, CHANGED):
        return what
    return text, value


def _kernel_lines(evidence: dict[str, object], found: Contents) -> Iterator[str]:
    """The lines of the kernel log as the node sent them, each once, in the order of the facts before and after."""
    seen: dict[str, None] = {}
    for value in evidence.values():
        section = value
        for key in ("document", "sections", "kernel_log", "data", "lines"):
            section = section.get(key) if isinstance(section, dict) else None
        seen |= dict.fromkeys(line for line in section if isinstance(line, str)) if isinstance(section, list) else {}
    if not seen:
        found.left_out.append("kernel-log.txt: no line of the kernel log was recorded")
    yield from seen


def _asked_of_the_past(about: Subject) -> dict[str, str]:
    return {"history": about.name, **({"history-of-part": about.serial} if about.serial else {})}


def _history(record: Path, who: str, found: Contents) -> Iterator[str]:
    """What the fleet's record has of the node or the part."""
    if not record.exists():
        found.left_out.append(f"history of {who}: there is no record {record.name}")
        return
    with database.reading(record) as base:
        try:
            known = whom(base, who)
        except UsageError as said:
            found.left_out.append(f"history of {who}: {said.message}")
            return
        yield from story(base, known, margins_of_suite())


def _add_bug_report(about: Subject, folder: RunFolder, found: Contents, *, given: Path | None, redacted: bool) -> None:
    if redacted:
        found.left_out.append(f"{BUG_REPORT}: it cannot be redacted: send it by itself, if the vendor asks for it")
    elif raw := bug_report(about, folder.path / "evidence" / about.name, given):
        found.files[BUG_REPORT] = raw


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
