"""A parser comes with recordings of what its tool printed, with a fuzz target, and with something that uses it."""

import ast
import re
from pathlib import Path

import pytest
from support.recordings import FOLDER

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "src" / "nodegate" / "tools"


def parsers(file):
    functions = (each.name for each in ast.parse(file.read_text("utf-8")).body if isinstance(each, ast.FunctionDef))
    return [name for name in functions if name.startswith("parse")]


def using(tool, text):
    names = {
        f"{node.module}.{name.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    return any(re.match(rf"nodegate\.tools\.{tool}(\.|$)", name) for name in names)


NAMES = sorted(file.stem for file in TOOLS.glob("*.py") if parsers(file))


@pytest.mark.parametrize("tool", NAMES)
def test_a_parser_has_recordings_a_fuzz_target_and_something_that_uses_it(tool):
    folder = FOLDER / tool
    assert folder.is_dir(), f"record what {tool} prints in {folder.relative_to(ROOT)}"
    assert len(list(folder.iterdir())) >= 2, f"{folder.relative_to(ROOT)}: healthy and faulty at the least"
    assert using(tool, (ROOT / "fuzz" / "tool_targets.py").read_text("utf-8"))
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "checks").glob("*.py")]
    texts = (file.read_text("utf-8") for file in files if file.parent != TOOLS)
    assert any(using(tool, text) for text in texts if "nodegate.tools" in text)
