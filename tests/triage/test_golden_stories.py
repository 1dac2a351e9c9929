"""Ten stories word for word in both languages, as text and as JSON; and no Chinese answer has an English sentence.

To accept new words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.job_logs import ecc_case
from support.job_stories import STORIES
from support.languages import chinese_of, english_in, sentences
from support.schemas import read_output

from nodegate.cli import main
from nodegate.knowledge.words import Text
from nodegate.triage import render
from nodegate.triage.remarks import Note
from nodegate.triage.triage import triage

GOLDEN = Path(__file__).parents[1] / "golden" / "triage"


def same(file, said):
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_text_and_the_json_of_a_story(story, tmp_path, monkeypatch):
    """The JSON has a line a key, and every sentence of the text."""
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    story(Path("logs"))
    answer = triage(["logs"])
    texts = {language: render.text(answer, language) for language in ("en", "zh")}
    same(GOLDEN / f"{story.__name__}.txt", "\n\n".join(texts.values()) + "\n")
    value = read_output(render.as_json(answer))
    lines = (f"{json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items())
    same(GOLDEN / f"{story.__name__}.json", "{{\n{}\n}}\n".format(",\n".join(lines)))
    for (language, text), notes in zip(texts.items(), ("notes", "notes_zh"), strict=True):
        said = [value["sentence"], *value["why"][:4], *([value["action"]] if value["failed"] else [])]
        assert [each[language] for each in said if each[language] not in text] == []
        assert [note for note in value[notes][:3] if note not in text] == []


def test_the_command_answers_in_chinese(tmp_path, capsys):
    assert main(["triage", str(ecc_case(tmp_path)), "--lang", "zh"]) == 0
    assert capsys.readouterr().out.startswith("硬件故障：把作业移出 gpu08")


def test_each_chinese_side_of_the_tables_is_chinese():
    """Three words in a row would be a clause, and they would count as terms from then on."""
    assert len(sentences()) > 300
    odd = [text.zh for text in sentences() if not re.search("[\u4e00-\u9fff]", text.zh)]
    odd += [text.zh for text in sentences() if re.search(r"(?:\b[a-z]{2,} ){2}[a-z]{2,}\b", text.zh)]
    assert odd == []


def test_a_note_that_stayed_english_is_found(tmp_path):
    found = triage([str(ecc_case(tmp_path))])
    note = Note(Text("x", "its clock names no zone"), (found.read.kernel_nodes[0],))
    said = chinese_of(replace(found, notes=(note,)))
    assert sum(text.endswith("its clock names no zone") for text in english_in(said, [])) == 2  # in text and JSON


def test_a_quoted_line_is_no_english_of_ours_and_what_is_around_it_is():
    line = "NVRM: the GPU is lost, and nothing of it can be read any more"
    assert english_in([f"内核报告：{line[:30]}…"], [line]) == []
    assert english_in([f"the kernel says：{line}"], [line]) != []
