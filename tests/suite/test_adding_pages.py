"""docs/guide/adding-a-*.md name files and tests that there are, and what each is said to hold."""

import re
from pathlib import Path

import pytest

from nodegate.facts import FACTS, Fact
from nodegate.node_side.probe.main import SECTIONS
from nodegate.node_side.probe.reading import unknown

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text("utf-8") for page in sorted(ROOT.glob("docs/guide/adding-a-*.md"))}
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[a-z_]+(?:/[\w.-]+)*/(?:[\w.-]+)?")  # has a slash, and no placeholder
_LINK = re.compile(r"\]\(([\w./-]+)\)")
OF_A_SITE = {"checks/test_scratch.py", "baselines/site.yaml", "baselines/lenovo-sr680a-h200.yaml"}  # the reader's own


def paths(text):
    return {found for found in _CODE.findall(text) if _PATH.fullmatch(found)} - OF_A_SITE


def test_the_pages_are_there():
    things = ("check", "fact", "tool", "launcher", "platform", "signature")
    assert set(PAGES) == {f"adding-a-{thing}.md" for thing in things}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_of_a_page_exists(page):
    assert len(paths(PAGES[page])) >= 6
    assert [path for path in sorted(paths(PAGES[page])) if not (ROOT / path).exists()] == []
    assert [link for link in _LINK.findall(PAGES[page]) if not (ROOT / "docs" / "guide" / link).exists()] == []


def test_the_steps_are_numbered_in_their_order():
    for page in ("adding-a-fact.md", "adding-a-tool.md", "adding-a-launcher.md", "adding-a-platform.md"):
        steps = [int(number) for number in re.findall(r"^\| (\d+) \|", PAGES[page], re.MULTILINE)]
        assert steps == list(range(1, len(steps) + 1))


def test_the_names_in_the_pages_are_those_of_the_code():
    page = PAGES["adding-a-fact.md"]
    assert "`SECTIONS`" in page
    assert all(limit_s > 0 for _, limit_s in SECTIONS.values())
    assert "`reading.unknown(why, detail)`" in page
    assert unknown("missing", "no file") == {"why": "missing", "detail": "no file"}
    written = (ROOT / "src/nodegate/facts.py").read_text()
    assert '`disks = _of("disks", disks.parse)`' in page
    assert 'mounts = _of("mounts", mounts.parse)' in written
    assert '`Fact(_gpus, "nvml", "nvidia_smi")`' in page
    assert 'Fact(_gpus, "nvml", "nvidia_smi")' in written
    assert isinstance(FACTS["clock"], Fact)
