"""nodegate.api and nodegate.open_run keep what they promise, docs/guide/api.md lists it, and the checks use it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.api_names import BY_NAME_ALONE, FILE, TABLES, lines

from nodegate import api

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "api.md").read_text("utf-8")
CHECKS = [*sorted((ROOT / "checks").glob("test_*.py")), ROOT / "src" / "nodegate" / "site" / "checks" / "test_site.py"]
_COLUMNS = re.compile(r"^\| (`[^|]+`) \| (string|Int64|float64|object) \|", re.MULTILINE)


@pytest.mark.long
def test_what_was_promised_is_there():
    promised = FILE.read_text("utf-8").splitlines()
    assert [each for each in promised if each not in lines()] == [], "docs/guide/api.md says how a name goes"


def test_what_is_there_is_promised():
    promised = FILE.read_text("utf-8").splitlines()
    assert [each for each in lines() if each not in promised] == [], "make docs"


def test_a_name_that_is_gone_is_an_ordinary_error():
    with pytest.raises(ImportError, match="cannot import name 'Fleets'"):
        from nodegate.api import Fleets  # type: ignore[attr-defined]  # noqa: F401


def test_every_name_is_on_the_page():
    section = PAGE.partition("## What a check may import")[2].partition("## What stays")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert sorted(set(api.__all__) - named) == []


def test_the_types_that_stay_by_name_alone_are_said():
    said = PAGE.partition("**Stays by its name alone**: ")[2].partition(". ")[0]
    assert set(re.findall(r"`(\w+)`", said)) == BY_NAME_ALONE <= set(api.__all__)


@pytest.mark.parametrize("table", TABLES)
def test_the_columns_of_a_table_are_on_the_page_in_their_order(table):
    section = PAGE.partition(f"### {table}\n")[2].partition("\n#")[0]
    said = [(name, kind) for names, kind in _COLUMNS.findall(section) for name in re.findall(r"`(\w+)`", names)]
    assert said == list(TABLES[table].items())


def imported(file):
    found = [each for each in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(each, ast.ImportFrom)]
    return {(each.module or "", name.name) for each in found for name in each.names}


@pytest.mark.parametrize("file", CHECKS, ids=lambda file: file.stem)
def test_a_check_imports_from_there_what_is_there(file):
    homes = imported(ROOT / "src" / "nodegate" / "api.py")
    elsewhere = {(module, name) for module, name in homes if name in api.__all__}
    assert imported(file) & {*elsewhere, *(("nodegate", name) for name in api.__all__)} == set()


def loaded(code):
    """What of pandas, numpy and the library of the records is loaded after this code."""
    said = "import sys; print([name for name in ('pandas', 'numpy', 'msgspec') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{said}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout.splitlines()[-1])
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("module", ["nodegate", "nodegate.api", "nodegate.cli"])
def test_nothing_heavy_is_imported(module):
    assert loaded(f"import {module}") == []


def test_a_run_without_load_loads_no_pandas(tmp_path):
    run = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", "hgx01", "--run-dir", str(tmp_path / "run")]
    passive = [*run, "--passive", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-k", "link_width"]
    found = loaded(f"import os, pytest; os.chdir({str(tmp_path)!r}); assert pytest.main({passive!r}) == 0")
    assert found == ["msgspec"]
    assert (tmp_path / "run" / "report.json").exists()
