"""A recording: what a board's driver and nodegate's programs printed, kept so that the parsers read it for ever.

Of the probe only what tells of the hardware is kept. Serial numbers, UUIDs and addresses are replaced by others of the
same form, the same by the same, so that the parsers still see what they have to read.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import TYPE_CHECKING

from lab.gpu import numbers
from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.facts import NodeFacts
from nodegate.probe.collect import decode
from nodegate.records.program_run import ProgramRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MADE_OF_IT = "parsed.json"
_FACTS = "facts"
_PROGRAMS = {"burn": "burn", "copies": "copies"}  # the first word of a document's name -> what the parsers call it
# Of the probe's sections: the others tell of a node's users and their work.
_SECTIONS = ("nvml", "nvidia_smi", "pci", "driver", "infiniband", "cpus")
# The same forms that a redacted report leaves out, and serial numbers of boards.
_NAMES = re.compile(
    r"\b[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b"
    r"|\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b"
    r"|\b(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}\b|\b0x[0-9A-Fa-f]{16}\b|\b[0-9a-f]{32}\b"
)
_IP = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
_SERIAL_KEYS = ("serial", "hostname", "node_name", "product_serial", "board_serial", "chassis_serial", "sys_serial")
_SHORTEST = 4


def write(folder: Path, documents: Mapping[str, object]) -> list[str]:
    """Write the documents, and what the parsers make of them now; the names of the files."""
    folder.mkdir(parents=True)
    cleaned = _Cleaner(documents).everything()
    for name, document in cleaned.items():
        _write(folder / f"{name}.json", document)
    _write(folder / MADE_OF_IT, parsed(folder))
    return sorted(each.name for each in folder.iterdir())


def parsed(folder: Path) -> dict[str, object]:
    """What the parsers make of a recording: every fact or why there is none, and every number."""
    found: dict[str, object] = {}
    programs = []
    for file in sorted(folder.glob("*.json")):
        if file.stem == _FACTS:
            found["facts"] = _facts(file.read_bytes())
        elif file.name != MADE_OF_IT:
            what = _PROGRAMS[file.stem.partition("-")[0]]
            programs.append(ProgramRun(what=what, stdout=file.read_text("utf-8"), exit_code=0))
    found["numbers"] = [each.to_json() for each in numbers.metrics(programs)]
    return found


def _facts(raw: bytes) -> dict[str, str]:
    facts = NodeFacts(decode(raw))
    return {name: _one(facts, name) for name in sorted(vars(NodeFacts)) if hasattr(vars(NodeFacts)[name], "sections")}


def _one(facts: NodeFacts, name: str) -> str:
    try:
        return f"parsed: {type(facts.get(name)).__name__}"
    except (CannotMeasure, NotApplicable) as why:
        return f"{type(why).__name__}: {why}"


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


class _Cleaner:
    """Replaces names by others of the same length and form; the same name by the same other in all documents."""

    def __init__(self, documents: Mapping[str, object]) -> None:
        kept = {name: _hardware(document) for name, document in documents.items()}
        self.text = {name: json.dumps(document, ensure_ascii=False) for name, document in kept.items()}
        self.salt = secrets.token_hex(16)
        self.words = {word for document in documents.values() for word in _words(document)}

    def everything(self) -> dict[str, object]:
        return {name: json.loads(self.clean(text)) for name, text in self.text.items()}

    def clean(self, text: str) -> str:
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, self.other(word))
        text = _NAMES.sub(lambda match: self.other(match[0]), text)
        return _IP.sub(lambda match: self.address(match[0]), text)

    def other(self, word: str) -> str:
        """Digits for digits, letters for letters; what is no letter or digit stays."""
        rest = iter(hashlib.shake_256(f"{self.salt}{word.lower()}".encode()).digest(len(word)))
        start = 2 if word.lower().startswith("0x") else 0
        changed = "".join(_like(letter, next(rest)) for letter in word[start:])
        return word[:start] + changed

    def address(self, found: str) -> str:
        if found.startswith(("127.", "0.")) or any(int(part) > 255 for part in found.split(".")):
            return found
        return f"192.0.2.{hashlib.sha256(f'{self.salt}{found}'.encode()).digest()[0] % 254 + 1}"


def _hardware(document: object) -> object:
    """Without the sections that do not tell of the hardware."""
    if not isinstance(document, dict) or not isinstance(document.get("sections"), dict):
        return document
    sections = {name: each for name, each in document["sections"].items() if name in _SECTIONS}
    return {**document, "sections": sections}


def _like(letter: str, chance: int) -> str:
    if letter.isdigit():
        return str(chance % 10)
    if letter in "abcdef":
        return "abcdef"[chance % 6]
    if letter in "ABCDEF":
        return "ABCDEF"[chance % 6]
    return chr(ord("g") + chance % 20) if letter.isascii() and letter.isalpha() else letter


def _words(value: object, key: str = "") -> set[str]:
    """Serial numbers and host names, wherever they stand."""
    if isinstance(value, dict):
        return {word for name, each in value.items() for word in _words(each, str(name))}
    if isinstance(value, list):
        return {word for each in value for word in _words(each, key)}
    wanted = key in _SERIAL_KEYS and isinstance(value, str) and len(value) >= _SHORTEST
    return {str(value)} if wanted and str(value).lower() not in ("none", "unknown", "localhost") else set()
