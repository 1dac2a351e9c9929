"""No code looks into a sentence to decide something: what decides is a field of its own."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SENTENCES = frozenset(("text", "note", "action", "reason", "message", "next_step", "detail", "brief", "seen", "cannot"))
VARIABLES = frozenset(("note", "action", "reason", "next_step", "cannot"))  # the others are of all sorts
STR = frozenset(name for name in dir(str) if not name.startswith("_")) - {"join", "format", "encode"}
RE = frozenset(
    ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer", "fnmatch", "fnmatchcase")
)
# Where one of these names is what a node, a program or a person wrote: parsers look at it.
# A folder stands for all in it.
WRITTEN_BY_OTHERS = {
    "triage": "lines of job logs and kernel logs",
    "watch": "lines of job logs",
    "kernel_log": "lines of the kernel log",
    "knowledge/xid_lines.py": "lines of the kernel log",
    "tools": "what programs print",
    "subjects/fabric_log.py": "lines of the fabric manager's log",
    "subjects/gpu.py": "lines of the kernel log",
    "hook/slurm.py": "a reason that Slurm keeps: the hook has marked its own, as Slurm has no field for it",
    "inventory": "names and hosts that were seen in a list, and texts of variables",
    "test_fleet_log.py": "lines of the kernel log",
    "records/evidence.py": "evidence of older releases, which had in their reasons what has a field now",
    "everywhere/fold.py": "a node's own names are taken out, so that equal answers are shown once",
    "run/slurm_events.py": "a reason that Slurm keeps: what the hook has marked as its own",
    "notices/message.py": "the first line of a text is its title",
    "report/wording.py": "a note begins with a capital letter on the page",
}
FOLDERS = (ROOT / "src" / "nodegate", ROOT / "checks")


def is_sentence(node):
    is_variable = isinstance(node, ast.Name) and node.id in VARIABLES
    return is_variable or (isinstance(node, ast.Attribute) and node.attr in SENTENCES)


def looks(tree):
    """The lines in which something looks into a sentence: a method of str or re, a part of it, a literal in it."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_str = node.func.attr in STR and is_sentence(node.func.value)
            of_re = node.func.attr in RE and any(is_sentence(each) for each in node.args)
            is_look = of_str or of_re
        elif isinstance(node, ast.Subscript):
            is_look = is_sentence(node.value)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_within = any(isinstance(each, (ast.In, ast.NotIn)) for each in node.ops)
            is_look = any(map(is_sentence, sides)) and (is_within or any(map(is_named_text, sides)))
        else:
            continue
        if is_look:
            found.append(node.lineno)
    return found


def is_named_text(node):
    """Whether it is a text of the program itself: a literal but "", or a constant's name."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value != ""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.isupper()


def files():
    return {str(path.relative_to(folder)): path for folder in FOLDERS for path in folder.rglob("*.py")}


@cache
def places():
    found = {name: looks(ast.parse(path.read_text(encoding="utf-8"))) for name, path in files().items()}
    return {name: lines for name, lines in found.items() if lines}


def is_excepted(name):
    return not {name, *map(str, Path(name).parents)}.isdisjoint(WRITTEN_BY_OTHERS)


def test_nothing_looks_into_a_sentence():
    assert {name: lines for name, lines in places().items() if not is_excepted(name)} == {}


def test_each_exception_is_needed():
    needed = {each for name in places() for each in (name, *map(str, Path(name).parents))}
    assert sorted(WRITTEN_BY_OTHERS.keys() - needed) == []
