"""Ten stories in both languages, as text and as JSON.

Word for word; to accept new words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import json
import os
from pathlib import Path

import pytest
from support.job_logs import ecc_case
from support.job_stories import STORIES
from support.schemas import read_output

from nodegate.cli import main
from nodegate.triage import render
from nodegate.triage.triage import triage

GOLDEN = Path(__file__).parents[1] / "golden" / "triage"


@pytest.fixture(params=STORIES, ids=lambda story: story.__name__)
def story(request, tmp_path, monkeypatch):
    """The name of a story, and its answer; its logs are in the folder `logs`."""
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    request.param(Path("logs"))
    return request.param.__name__, triage(["logs"])


def same(file, said):
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


def test_the_text_of_a_story(story):
    name, answer = story
    same(GOLDEN / f"{name}.txt", f"{render.text(answer)}\n\n{render.text(answer, 'zh')}\n")


def test_the_json_of_a_story(story):
    """A line a key."""
    name, answer = story
    value = read_output(render.as_json(answer))
    lines = (f"{json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items())
    same(GOLDEN / f"{name}.json", "{{\n{}\n}}\n".format(",\n".join(lines)))


def test_the_command_answers_in_chinese(tmp_path, capsys):
    assert main(["triage", str(ecc_case(tmp_path)), "--lang", "zh"]) == 0
    assert capsys.readouterr().out.startswith("硬件故障：把作业移出 gpu08")  # noqa: RUF001


def test_the_json_has_every_sentence_of_the_text(story):
    _, answer = story
    value = read_output(render.as_json(answer))
    for language, notes in (("en", "notes"), ("zh", "notes_zh")):
        text = render.text(answer, language)
        said = [value["sentence"], *value["why"][:4], *([value["action"]] if value["failed"] else [])]
        assert [each[language] for each in said if each[language] not in text] == []
        assert [note for note in value[notes][:3] if note not in text] == []
