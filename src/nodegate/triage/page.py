"""The answer as one HTML page: opens offline, loads no other files, runs no script; every text escaped."""

# ruff: noqa: RUF001 - Chinese punctuation
from pathlib import Path

from markupsafe import Markup

from nodegate.errors import UsageError
from nodegate.files.atomic import replacing
from nodegate.files.paths import REPORTS, suite_folder
from nodegate.report.html import content_policy, environment
from nodegate.triage import render
from nodegate.triage.answer import Answer
from nodegate.triage.clock import shown
from nodegate.triage.wording import rank_list

_MOST_ROWS = 500
_WORDS = {
    "en": {
        "title": "Triage of a job",
        "followed": "What followed",
        "overcome": "Earlier errors after which the training continued",
        "notes": "About the logs",
        "columns": ("time", "what", "ranks", "nodes", "count", "first line"),
    },
    "zh": {
        "title": "作业故障诊断",
        "followed": "随后发生",
        "overcome": "更早的错误（其后训练仍在推进）",
        "notes": "关于日志",
        "columns": ("时间", "含义", "rank", "节点", "次数", "首行"),
    },
}


def page(answer: Answer, language: str = "en") -> str:
    """The whole page."""
    folder, words = suite_folder(REPORTS) / "templates", _WORDS[language]
    style = Markup((folder / "report.css").read_text(encoding="utf-8"))  # noqa: S704 - the suite's own file
    template = environment(folder).get_template("triage.html.j2")
    return template.render(
        language="zh-CN" if language == "zh" else "en",
        title=words["title"],
        sentence=answer.sentence.of(language),
        rows=render.facts(answer, language),
        tables=((words["followed"], answer.followed), (words["overcome"], answer.overcome)),
        columns=words["columns"],
        notes=[note.text.of(language) for note in answer.notes],
        notes_heading=words["notes"],
        most=_MOST_ROWS,
        pick=lambda said: said.of(language),
        clock=lambda epoch_s: shown(epoch_s, zone_s=answer.zone_s),
        ranks=lambda group: rank_list(group.ranks) if group.ranks else "",
        style=style,
        policy=content_policy(style, ""),
    )


def write_page(answer: Answer, file: Path, language: str) -> None:
    """Write the page, completely or not at all.

    Raises:
        UsageError: it cannot be written there.
    """
    try:
        with replacing(file) as stream:
            stream.write(page(answer, language))
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(file)) from broken
