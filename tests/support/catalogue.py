"""The catalogue of sentences: what the code asks for, what the .po file has, and the .mo file made of it.

To write nodegate.mo again: NODEGATE_WRITE_GOLDEN=1 pytest tests/notices/test_catalogue.py
"""

import ast
import struct
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "nodegate"
FOLDER = SOURCES / "words" / "zh" / "LC_MESSAGES"


def asked_for() -> Iterator[tuple[str, ...]]:
    """The sentences that the code asks for: one, or singular and plural."""
    for file in sorted(SOURCES.rglob("*.py")):
        source = file.read_text("utf-8")
        if "nodegate.words" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                given = {"say": node.args[:1], "known": node.args[:1], "count": node.args[:2]}.get(name, [])
                texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
                if texts:
                    yield tuple(texts)


def read(text: str) -> dict[tuple[str, ...], str]:
    """The entries of a .po file: one line a text, `msgid`, perhaps `msgid_plural`, and `msgstr` or `msgstr[0]`."""
    found: dict[tuple[str, ...], str] = {}
    key: tuple[str, ...] = ()
    last = ""
    for line in text.splitlines():
        word, _, value = line.partition(" ")
        if word == "msgid":
            key = (ast.literal_eval(value),)
        elif word == "msgid_plural":
            key = (*key, ast.literal_eval(value))
        elif word.startswith("msgstr"):
            assert key not in found, f"twice: {key}"
            found[key] = ast.literal_eval(value)
        elif line.startswith('"'):
            found[key] += ast.literal_eval(line)
        else:
            assert not line or line.startswith("#"), line
        last = line
    assert last
    return found


def compiled(entries: dict[tuple[str, ...], str]) -> bytes:
    """The .mo file: two tables of lengths and offsets, then the texts, sorted, each with a zero after it."""
    rows = sorted(("\0".join(key).encode(), text.encode()) for key, text in entries.items())
    begin = 28 + 16 * len(rows)
    ids = b"".join(key + b"\0" for key, _ in rows)
    tables, offsets = [], [begin, begin + len(ids)]
    for column in (0, 1):
        for row in rows:
            tables.append(struct.pack("<2I", len(row[column]), offsets[column]))
            offsets[column] += len(row[column]) + 1
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    return head + b"".join(tables) + ids + b"".join(text + b"\0" for _, text in rows)
