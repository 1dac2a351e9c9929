"""What people read is in the words of docs/reference/glossary.md, and pages have short lines."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
WIDTH = 100

# What the left column of the glossary's last table means, as patterns.
AVOIDED = {
    "mend": r"\bmend(s|ed|ing)?\b",
    "the node works (with a job on it)": r"\bnodes? works?\b",
    "stands still": r"\b(stands?|stood) still\b",
    "told, tells (by a device or program)": r"\b(un)?told\b|\btells\b",
    "stands in, lies in": r"\b(stands?|stood|lies?|lay) (in|at|on|beside|around|above|below|there|before)\b",
    "anew": r"\banew\b",
    "nobody, somebody": r"\b(no|some|any)body\b",
    "besides": r"\bbesides\b",
    "meanwhile": r"\bmeanwhile\b",
    "from which on": r"\bfrom [^.,;:]{1,40}(?<!later) on(?=[.,;:)]|$)",
    "so far as": r"\bso far as\b",
    "is no file": r"(?<!there )(?<!There )\b(is|are|was|were) no (?!(longer|more|less|faster|slower|better)\b)",
    "could not be had": r"\bbe had\b",
    "its word, its own word": r"\b(its|own|their|device's) word\b",
    "a fault of ours": r"\bfaults? of ours\b|\bour own faults?\b",
    "put that right": r"\bput (that|it|them) right\b",
}

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
READMES = [ROOT / "lab" / "README.md", ROOT / "bench" / "RESULTS.md"]
DATA = sorted(
    [
        *ROOT.glob("baselines/*.yaml"),
        *(path for path in ROOT.glob("inventory/*.*") if path.is_file()),
        *ROOT.glob("reports/templates/*.*"),
        *(path for path in ROOT.glob("deploy/*") if path.is_file()),
        *ROOT.glob("src/nodegate/site/**/*.yaml"),
        *(ROOT / "src" / "nodegate" / "knowledge").glob("*.csv"),
    ]
)
_CODE = re.compile(r"`[^`]*`|\[[\w./]+\]\([^)]*\)")  # code, and links to files by their names
# Pages that are being rewritten.
# Rooms of src/nodegate whose strings, docstrings and comments are not in these words yet, and files of others.
NOT_YET = {
    *("causes", "claims", "judge", "kernel_log", "launchers", "node_settings", "numbers", "policy", "report"),
    *("subjects", "toolbox", "__init__.py", "commands/tools.py"),
    *(f"records/{name}.py" for name in ("cause", "claim", "finding", "part", "plain")),
    *(f"records/{name}.py" for name in ("results", "taken_key")),
    *(f"measure/{name}findings.py" for name in ("burn/", "copies/", "copies/host_", "groups/", "rdma/")),
}
SOURCES = ROOT / "src" / "nodegate"
ROOMS = sorted({file.relative_to(SOURCES).parts[0] for file in SOURCES.rglob("*.py")} - NOT_YET)


def prose(page):
    lines = []
    code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.startswith("    "):
            lines.append((number, line))
    return lines


def avoided(text):
    return [word for word, pattern in AVOIDED.items() if re.search(pattern, text)]


def left_column():
    _, _, table = GLOSSARY.read_text("utf-8").partition("| we do not write | we write |\n|---|---|\n")
    return [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]


def test_each_word_of_the_glossary_that_is_not_written_has_its_pattern():
    assert left_column() == list(AVOIDED)


@pytest.mark.parametrize("word", [word for word in AVOIDED if word != "the node works (with a job on it)"])
def test_a_pattern_finds_its_own_word(word):
    for each in word.partition(" (")[0].split(", "):
        assert word in avoided(f"it says {each}, and more"), each


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.name)
def test_a_line_of_a_page_is_short(page):
    long = [f"{number}: {line}" for number, line in prose(page) if len(line) > WIDTH and not line.startswith("|")]
    assert long == []


@pytest.mark.parametrize("page", [*PAGES, *READMES, *DATA], ids=lambda page: page.name)
def test_a_page_is_in_plain_words(page):
    lines = prose(page) if page.suffix == ".md" else list(enumerate(page.read_text("utf-8").splitlines(), 1))
    # What a check said of an injected fault is quoted as it was said; the glossary names the words themselves.
    table = {"injected-faults.md": "| ", "glossary.md": tuple(f"| {word} " for word in AVOIDED)}.get(page.name)
    kept = [(number, _CODE.sub("", line)) for number, line in lines if not (table and line.startswith(table))]
    assert [f"{number}: {word}: {line}" for number, line in kept for word in avoided(line)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_in_plain_words(room):
    files = sorted((SOURCES / room).rglob("*.py")) if (SOURCES / room).is_dir() else [SOURCES / room]
    files = [file for file in files if str(file.relative_to(SOURCES)) not in NOT_YET]
    assert files
    assert [f"{file.relative_to(ROOT)}:{said}" for file in files for said in _said(file.read_text("utf-8"))] == []


def _said(source):
    """The words of the left column in the strings, docstrings and comments of a source, with their lines."""
    texts = [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    return [
        f"{line}: {word}: {text[:120]}"
        for line, text in texts
        for word in avoided(_CODE.sub("", " ".join(text.split())))
    ]


def test_strings_docstrings_and_comments_of_a_source_are_read():
    coverage = ROOT / "tests" / "support" / "coverage_page.py"  # which writes a page
    assert _said(coverage.read_text("utf-8")) == []
    source = '"""It is told."""\n\nX = f"{1} stands in it"  # anew\n'
    assert [said.split(": ")[:2] for said in _said(source)] == [
        ["1", "told, tells (by a device or program)"],
        ["3", "stands in, lies in"],
        ["3", "anew"],
    ]
