"""docs/guide/adding-a-check.md can be followed: its example is run as it is printed, and its lists are complete."""

import re
from pathlib import Path

import pytest
from support.pages import Page
from support.recorded import run_pytest

from nodegate.facts import FACTS
from nodegate.judge.context import CONTEXT_NAMES
from nodegate.measure.registry import MEASURED
from nodegate.records.verdict import Verdict

ROOT = Path(__file__).parents[2]
PAGE = Page("adding-a-check.md")
DEMO = ROOT / "inventory" / "demo.yaml"
FILES = PAGE.files
CHECK = "checks/test_scratch.py"


def site(folder):
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def judged(folder, *more):
    return run_pytest(folder, ["--inventory", str(DEMO), "-p", "no:cacheprovider", *more], timeout_s=300)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    words = PAGE.block("sh").split()
    assert words[:3] == ["pytest", "--inventory", "inventory/demo.yaml"]
    more = [*words[3:-1], f"{words[-1]} or link_width"]
    return judged(site(tmp_path_factory.mktemp("site")), *more)


def test_the_page_prints_both_files():
    assert set(FILES) == {CHECK, "baselines/site.yaml"}
    body = FILES[CHECK].partition("def ")[2].strip().splitlines()
    assert len(body) <= 17


def test_the_example_passes_on_healthy_nodes_and_finds_the_one_that_the_page_names(outcome):
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    verdicts = outcome.verdicts("scratch.free")
    assert {node for node, verdict in verdicts.items() if verdict != "pass"} == {"roce06"}
    assert verdicts["roce06"] == "fail"
    assert len(verdicts) == 16


def test_it_says_what_the_page_prints(outcome):
    (record,) = [each for each in outcome.records if (each.node, each.check) == ("roce06", "scratch.free")]
    node, _, words = PAGE.block("text").partition(": ")
    assert node == record.node
    assert words in record.message


def test_the_checks_of_the_suite_run_beside_it(outcome):
    assert {record.check for record in outcome.records} > {"scratch.free"}


def test_without_its_limit_it_is_not_judged(tmp_path):
    found = judged(site(tmp_path), "-k", "test_scratch", "--nodes", "hgx01,roce06")
    assert set(found.verdicts("scratch.free").values()) == {Verdict.NOT_JUDGED.value}, found.stdout


def test_a_slip_in_its_limit_is_refused_with_the_near_match(tmp_path):
    limits = site(tmp_path) / "baselines" / "site.yaml"
    limits.write_text(limits.read_text().replace("free_min_gib", "free_mim_gib"))
    found = judged(tmp_path, "--baseline", "baselines/site.yaml", "-k", "test_scratch")
    assert found.exit_code == 4
    assert "no check asks for scratch.free_mim_gib - did you mean scratch.free_min_gib?" in found.stderr


def test_every_argument_is_on_the_page():
    rows = re.findall(r"^\| (`.*?`) \|", PAGE.text, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == sorted({*FACTS, *MEASURED, *CONTEXT_NAMES})
