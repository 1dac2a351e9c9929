"""The files of an archive, from the run folder, the fleet's record and what the user names."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nodegate.causes.details import details
from nodegate.errors import UsageError
from nodegate.files.bounded import read_bounded, read_given
from nodegate.files.gz import Damaged, compress, content, expand
from nodegate.files.strict_json import loads
from nodegate.past import database
from nodegate.past.difference import margins_of_suite
from nodegate.past.questions import whom
from nodegate.past.story import lines as story
from nodegate.records.evidence import SCHEMA, most_bytes
from nodegate.records.run_folder import RunFolder
from nodegate.records.store import to_bytes
from nodegate.rma.clean import Clean
from nodegate.rma.subject import Subject, all_serials
from nodegate.text import visible

BUG_REPORT = "nvidia-bug-report.log.gz"
MOST_FILES, MOST_BYTES = 64, 256 << 20  # of evidence
MOST_REPORT, MOST_REPORT_TEXT = 64 << 20, 512 << 20
_LONGEST = 1 << 16


@dataclass
class Contents:
    """The files by their names in the archive, what was left out and why, and the evidence that was changed."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def contents(
    about: Subject, folder: RunFolder, clean: Clean, record: Path, given: Path | None, *, redacted: bool
) -> Contents:
    """All of them but README.txt.

    Raises:
        UsageError: the bug report that is `given` cannot be read or is another node's, or the record is damaged.
    """
    found = Contents()
    evidence = dict(_evidence(about, folder, found))
    asked = {"history": about.name, **({"history-of-part": about.serial} if about.serial else {})}
    texts = {f"{name}.txt": list(_history(record, who, found)) for name, who in asked.items()}
    texts["findings.txt"] = list(details(about.node.records, about.name, everything=True))
    texts["serials.txt"] = [f"{part}: serial {serial}" for part, serial in sorted(about.serials.items())]
    ours = {} if redacted else about.report.run.contract.contract
    texts["contract.txt"] = [f"{name}: {value}" for name, value in ours.items()]
    texts["kernel-log.txt"] = _kernel_lines(evidence, found)
    documents = evidence | {
        "findings.json": {"node": loads(to_bytes(about.node)), "causes": loads(to_bytes(list(about.causes)))}
    }
    for each in (*documents.values(), *texts.values()):
        clean.learn(each)
    for name, value in documents.items():
        if (cleaned := clean.value(value)) != value or name not in evidence:
            found.changed += [name] if name in evidence else []
            found.files[name] = json.dumps(cleaned, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
    for name, lines in texts.items():
        if lines:
            whole = "".join(f"{visible(clean.text(line), most=_LONGEST)}\n" for line in lines)
            found.files[name] = whole.encode("utf-8", "backslashreplace")
    if redacted:
        found.left_out.append(f"{BUG_REPORT}: it cannot be redacted: send it by itself, if the vendor asks for it")
    elif raw := _bug_report(about, folder.path / "evidence" / about.name, given):
        found.files[BUG_REPORT] = raw
    return found


def _evidence(about: Subject, folder: RunFolder, found: Contents) -> Iterator[tuple[str, object]]:
    """Each document of the node's folder; its bytes go into `found`."""
    place = folder.path / "evidence" / about.name
    files = (
        []
        if place.is_symlink() or "/" in about.name
        else sorted((*place.glob("[!.]*.json"), *place.glob("[!.]*.json.gz")))
    )
    room = MOST_BYTES
    for file in files:
        raw, value, why = _read(about, folder, file)
        room -= len(raw)
        if not why and (len(found.files) >= MOST_FILES or room < 0):
            why = f"more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB"
        if why:
            found.left_out.append(f"evidence/{visible(file.name)}: {why}")
            continue
        name = f"evidence/{file.name.removesuffix('.gz')}"
        found.files[name] = raw
        yield name, value


def _read(about: Subject, folder: RunFolder, file: Path) -> tuple[bytes, object, str]:
    """The text and the value of a file of evidence, or why it is left out: what a link leads to is not evidence."""
    if file.is_symlink():
        return b"", None, "a link"
    most = most_bytes(file.name.partition(".")[0])
    try:
        raw = read_bounded(file, most)
        text = content(file, raw, most)
        value = loads(text) if len(text) <= most else None
    except (OSError, Damaged, ValueError, RecursionError) as error:
        return b"", None, f"not readable: {visible(str(error))}"
    whose = value.get("node") if isinstance(value, dict) and value.get("schema") == SCHEMA else None
    if whose != about.name:
        return b"", None, "another node's" if whose else "it does not say whose it is"
    return text, value, folder.manifest.trouble(file.relative_to(folder.path).as_posix(), raw)


def _kernel_lines(evidence: dict[str, object], found: Contents) -> list[str]:
    """The lines of the kernel log as the node sent them, each once, in the order of the facts before and after."""
    seen: dict[str, None] = {}
    for value in evidence.values():
        lines = value
        for key in ("document", "sections", "kernel_log", "data", "lines"):
            lines = lines.get(key) if isinstance(lines, dict) else None
        seen |= dict.fromkeys(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else {}
    found.left_out += [] if seen else ["kernel-log.txt: no line of the kernel log was recorded"]
    return list(seen)


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


def _bug_report(about: Subject, beside: Path, given: Path | None) -> bytes:
    """The report that is given, else the one beside the evidence, compressed; nothing where there is none.

    nodegate never makes one: that takes minutes and disturbs the GPUs.
    """
    there = (beside / name for name in (BUG_REPORT, BUG_REPORT.removesuffix(".gz")))
    file = given or next((each for each in there if each.is_file() and not each.is_symlink()), None)
    if file is None or (given is None and beside.is_symlink()):
        return b""
    try:
        raw = read_given(file, MOST_REPORT)
        text = expand(raw, MOST_REPORT_TEXT) if raw.startswith(b"\x1f\x8b") else raw
    except (OSError, Damaged) as error:
        raise UsageError(f"the bug report cannot be read: {error}", file=str(file)) from None
    if len(raw) > MOST_REPORT or len(text) > MOST_REPORT_TEXT:
        raise UsageError("the bug report is larger than any", file=str(file), hint="send it by itself")
    signs = {about.name, about.name.partition(".")[0], *all_serials(about.report, about.node)}
    if not any(sign.encode() in text for sign in signs):
        hint = "is it another node's? one of this node has its host name or a serial number of it"
        raise UsageError(f"the bug report does not name {about.name}", file=str(file), hint=hint)
    return compress(raw) if raw is text else raw
