"""The catalogue of sentences: what code, pages and tables ask for, what the .po file has, and the .mo file made of it.

To write nodegate.mo again: NODEGATE_WRITE_GOLDEN=1 pytest tests/notices/test_catalogue.py
"""

import ast
import csv
import re
import struct
from collections.abc import Iterable
from enum import Enum
from functools import cache
from pathlib import Path

from jinja2 import Environment
from jinja2.ext import extract_from_ast

from nodegate import suite
from nodegate.causes.conditions import conditions
from nodegate.claims.table import titles
from nodegate.job.tables import rows
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.metric_names import WORDS
from nodegate.policy import policy_file
from nodegate.records.cause import Class, Severity
from nodegate.records.claim import State
from nodegate.records.finding import LimitKind
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.fleet_result import FleetVerdict

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "nodegate"
FOLDER = SOURCES / "words" / "zh" / "LC_MESSAGES"
TEMPLATES = ROOT / "reports" / "templates"
_ONE = frozenset(("say", "known", "term", "phrase", "_"))
_MANY = frozenset(("count", "number_of"))
# Rooms whose findings are data: what stands in them as a whole text, without fields, is in the catalogue.
_FINDINGS = ("checks", *(f"src/nodegate/{name}" for name in ("subjects", "measure", "numbers", "kernel_log", "judge")))
_KNOWN = {"xid.csv": "action", "kernel_lines.csv": "action", "fabric_lines.csv": "action", "sxid_words.csv": "en"}
_WORDS_OF_A_FINDING = frozenset(("quantity", "what", "action", "remedy", "note", "text", "reason", "next_step"))


def asked_for():
    """The sentences that are asked for: one, or singular and plural."""
    for file in sorted(SOURCES.rglob("*.py")):
        source = file.read_text("utf-8")
        if "nodegate.words" in source or file.parent == SOURCES / "words":
            yield from _of_code(ast.parse(source))
    yield from ((each,) for each in (*_of_pages(), *_of_tables(), *_of_findings()))


def _of_code(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = node.args[: 1 if name in _ONE else 2 if name in _MANY else 0]
            if texts := tuple(each.value for each in given if _is_text(each) and each.value):
                yield texts
            if name == "counted" and _is_text(node.args[-1]):
                yield (f"{{n}} {node.args[-1].value}", f"{{n}} {node.args[-1].value}s")


def _of_pages():
    for name in ("report.html.j2", "certificate.html.j2"):
        page = Environment(autoescape=True).parse((TEMPLATES / name).read_text("utf-8"))
        for _, _, text in extract_from_ast(page, ("_", "term", "phrase")):
            yield from (each for each in (text if isinstance(text, tuple) else (text,)) if isinstance(each, str))
    yield from re.findall(r'say\("([^"]+)"', (TEMPLATES / "report.js").read_text("utf-8"))


def _of_tables():
    """The tables whose English a person reads: conditions, claims, checks, metrics, classes of a job, the words."""
    for condition in conditions().known:
        yield from (text for _, text in (*condition.says, *condition.do))
    yield from titles().values()
    policies = [policy_file.read(each.stem).policy for each in (ROOT / "policies").glob("*.yaml")]
    for each in policies:
        clauses = [rule.clause for rule in each.classes.values() if not rule.clause[:1].isdigit()]
        yield from (each.title, each.source, *clauses, *(item.title for item in each.not_measured))
    yield from (check.title for check in suite.checks())
    yield from WORDS.values()
    yield from (mode.name for mode in failure_modes().values())
    for name, column in _KNOWN.items():
        with (SOURCES / "knowledge" / name).open(encoding="utf-8") as file:
            yield from (row[column] for row in csv.DictReader(file) if row[column])
    yield from (text for row in rows("texts.csv") for text in (row["en"], row["do"]) if text)
    yield from (row["en"] for row in rows("sentences.csv"))
    yield from (f"rests on: {each.value}" for each in LimitKind)
    kinds: Iterable[type[Enum]] = (Severity, Class, NodeVerdict, Verdict, State, FleetVerdict)
    yield from (str(each.value) for kind in kinds for each in kind)


def _of_findings():
    for file in sorted(file for folder in _FINDINGS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            for given in node.keywords if isinstance(node, ast.Call) else ():
                value = given.value
                if given.arg in _WORDS_OF_A_FINDING and isinstance(value, ast.Constant) and value.value:
                    yield str(value.value)


@cache
def formed():
    """What code forms: texts as a whole, and texts of pieces with values between them."""
    files = (*SOURCES.rglob("*.py"), *(ROOT / "checks").rglob("*.py"))
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    rows = [getattr(node, "values", [node]) for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))]
    pieces = [[re.escape(each.value) if _is_text(each) else ".*" for each in row] for row in rows]
    return re.compile("|".join({"".join(row) for row in pieces if len("".join(row).replace(".*", "").strip()) > 3}))


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def read(text):
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


def compiled(entries):
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
