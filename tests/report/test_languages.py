"""A run in Chinese: its page and its answer are Chinese, and what programs read is the same as of a run in English."""

# ruff: noqa: RUF001 - Chinese punctuation

import json
import re
import shutil
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support import browser, catalogue
from support.recorded import run_pytest

from nodegate.records.claim import State
from nodegate.records.results import read
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.render import rerender
from nodegate.run.bootcheck import outcome_of
from nodegate.words.catalogue import LANGUAGES, speaking

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"原文「[^」]*(?:」| \.\.\.)")  # what is shown as it was written
# Names and commands: what an operator types, or the field calls it in Chinese too.
NAMES = re.compile(
    r"fabric manager|peer memory|power brake|in progress|systemctl restart|apt-mark hold|dnf versionlock|module \w+"
    r"|nvidia-smi[\w .-]*|ps -eo [\w,]+|mount -o [\w,=.]+|nodegate [\w ]+|chcpu -e|clock held by \w+"
)
ENGLISH = re.compile(r"[a-z]{3,}(?: [a-z]{3,})+")
EMPTY = {"meta", "link", "input", "br", "rect", "line", "path", "circle"}
NOT_READ = {"script", "style", "code"}
AS_IT_IS = {"mono", "hash", "names", "check", "facts", "cells"}  # ids, paths, commands, nodes, values of the machine


class Texts(HTMLParser):
    """What a person reads of a page: its texts, titles and labels."""

    def __init__(self, page):
        super().__init__()
        self.found, self._open = list[str](), list[tuple[str, bool]]()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        hidden = tag in NOT_READ or given.get("lang") == "en" or AS_IT_IS & set(given.get("class", "").split())
        self._open += [] if tag in EMPTY else [(tag, bool(hidden))]
        self.found += [given[name] for name in ("title", "aria-label", "placeholder") if given.get(name)]

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        self.found += [data.strip()] if data.strip() and not any(hidden for _, hidden in self._open) else []


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The run folder of some nodes of the demo fleet in Chinese, and what the run printed."""
    where = tmp_path_factory.mktemp("zh")
    (where / "checks").mkdir()
    own = 'verdicts.equal(subject="node", what="door", observed="closed", expected="closed")'
    own = f'def test_door(verdicts):\n    """The door of the rack is closed."""\n    {own}\n'
    (where / "checks" / "test_own.py").write_text(own, encoding="utf-8")
    demo = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", "hgx[01-05],roce[02-05]", "--lang", "zh"]
    demo += ["-p", "no:cacheprovider", "--record", "h.sqlite", "--run-dir", "run"]
    outcome = run_pytest(where, [str(ROOT / "checks"), str(where / "checks"), *demo], COLUMNS="80")
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    return where / "run", outcome.stdout


def left_in(text):
    """The English words of a text that are neither marked nor names."""
    return ENGLISH.findall(NAMES.sub("", MARKED.sub("", text)))


@pytest.mark.long
def test_no_english_is_left_on_the_page_after_its_scripts_ran(told):
    page = browser.dump_dom(told[0] / "report.html")
    assert '<html lang="zh-CN"' in page
    found = Texts(page).found
    assert len(found) > 1000
    assert {text: left for text in found if (left := left_in(text))} == {}
    entries = catalogue.read((catalogue.FOLDER / "nodegate.po").read_text("utf-8"))
    ours = {text for text, *_ in entries if " " in text} | {each.value for each in (*Verdict, *NodeVerdict, *State)}
    assert ours & set(found) == set()
    assert "原文「The door of the rack is closed.」" in found  # the site's own check
    assert sum(bool(MARKED.search(text)) for text in found) < len(found) / 3
    assert browser.console(told[0] / "report.html") == []


def test_the_answer_is_chinese_and_no_wider_than_the_terminal(told):
    lines = told[1].splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("9 个节点中："))
    answer = lines[begin : next(at for at, line in enumerate(lines) if line.startswith("报告："))]
    widths = [sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in line) for line in answer]
    assert len(answer) > 20
    assert max(widths) <= 80
    assert left_in(" ".join(" ".join(answer).split())) == []


def test_what_programs_read_is_the_same_in_each_language(told, tmp_path):
    folders = {lang: Path(shutil.copytree(told[0], tmp_path / lang)) for lang in LANGUAGES}
    for lang, folder in folders.items():
        rerender(folder, lang=lang)
    for name in ("nodes.csv", "findings.csv", "junit.xml", "metrics.prom"):
        assert len({(folder / name).read_bytes() for folder in folders.values()}) == 1, name
    runs = [json.loads((folder / "report.json").read_bytes()) for folder in folders.values()]
    assert [each["run"]["contract"].pop("languages") for each in runs] == [["en"], ["zh"]]
    assert runs[0] == runs[1]
    page = (folders["en"] / "report.html").read_text("utf-8")
    assert ('<html lang="en">' in page, "原文" in page, "合格" in page) == (True, False, True)  # 合格: its glossary


def test_a_bootcheck_says_its_line_in_the_language_that_is_asked_for(told):
    of_node = [record for record in read(told[0]) if record.node == "hgx03"]
    with speaking("zh"):
        chinese = outcome_of(tuple(of_node))
        assert left_in("".join(chinese.lines)) == []
    assert chinese.line == "不可用: GPU 3 S/N 1650003000003: 掉出总线（掉卡） - 断电重启，否则重新插拔或返修（RMA）"
    assert outcome_of(tuple(of_node)).line.startswith("unfit: GPU 3 S/N 1650003000003: off the bus")
