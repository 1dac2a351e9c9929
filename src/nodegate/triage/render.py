"""An answer as about ten lines of text for a person, and as JSON for a program."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nodegate.inventory.hostlist import fold
from nodegate.text import counted, visible
from nodegate.triage.clock import shown, zone_name
from nodegate.triage.groups import Group, rank_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.knowledge.words import Text
    from nodegate.triage.answer import Answer
    from nodegate.triage.events import Event

SCHEMA = "nodegate.triage/1"
_MOST_WHY = 4
_MOST_FOLLOWED = 4
_MOST_NOTES = 3
_WIDTH = 160
_ENGLISH = ("when", "where", "first", "why", "do", "then", "last", "read", "note", "past")
_CHINESE = ("时间", "位置", "首错", "依据", "处理", "随后", "进度", "已读", "注意", "曾有")
_LABELS = {"en": dict(zip(_ENGLISH, _ENGLISH, strict=True)), "zh": dict(zip(_ENGLISH, _CHINESE, strict=True))}


def pick(text: Text, language: str) -> str:
    """The text in the language that was asked for."""
    return text.zh if language == "zh" else text.en


def text(answer: Answer, language: str = "en") -> str:
    """About ten lines: the answer first."""
    lines = [pick(answer.sentence, language)]
    lines += [f"  {label:<6} {said}" for label, said in _rows(answer, language)]
    return "\n".join(visible(line, most=_WIDTH * 3) for line in lines)


def _rows(answer: Answer, language: str) -> Iterator[tuple[str, str]]:
    labels = _LABELS[language]
    yield from facts(answer, language, most_why=_MOST_WHY)
    for group in answer.followed[:_MOST_FOLLOWED]:
        yield labels["then"], followed(group, answer, language)
    if len(answer.followed) > _MOST_FOLLOWED:
        more = len(answer.followed) - _MOST_FOLLOWED
        yield labels["then"], f"... {more} more kinds (--json)" if language == "en" else f"…… 另有 {more} 类（--json）"
    for group in answer.overcome[:_MOST_FOLLOWED] if not answer.failed else ():
        yield labels["past"], followed(group, answer, language)
    for note in answer.notes[:_MOST_NOTES]:
        yield labels["note"], note
    if len(answer.notes) > _MOST_NOTES:
        yield labels["note"], f"... {len(answer.notes) - _MOST_NOTES} more (--json)"


def facts(answer: Answer, language: str, *, most_why: int = 100) -> list[tuple[str, str]]:
    """The rows under the sentence: where, when, the first line, why, what to do, how far the job got, what was read."""
    labels, root = _LABELS[language], answer.root
    rows = []
    if root is not None or answer.where.node or answer.where.pod or answer.where.rank is not None:
        rows += [(labels["where"], place_of(answer, language))]
    if root is not None:
        rows += [(labels["when"], when(answer, language))]
        rows += [(labels["first"], f"{root.log}:{root.line}: {root.text[:_WIDTH]}")]
    rows += [(labels["why"], pick(reason, language)) for reason in answer.why[:most_why]]
    if answer.failed:
        rows += [(labels["do"], pick(answer.action, language))]
    if answer.iteration is not None:
        clock = "" if answer.progress_s is None else f", {shown(answer.progress_s, zone_s=answer.zone_s)}"
        rows += [(labels["last"], f"iteration {answer.iteration}{clock}")]
    return [*rows, (labels["read"], read_line(answer, language))]


def when(answer: Answer, language: str) -> str:
    """When it began."""
    if answer.root is None or answer.root.printed_s is None or answer.began_s is None:
        return "unknown: the log has no times" if language == "en" else "未知：日志没有时间"
    about = (" (about)" if language == "en" else "（约）") if answer.root.about else ""
    return f"{shown(answer.began_s, zone_s=answer.zone_s)} {zone_name(answer.zone_s)}{about}"


def place_of(answer: Answer, language: str) -> str:
    """Node, rank, GPU and device, as far as they are known."""
    where = answer.where
    parts = [where.node or ("node not known" if language == "en" else "节点未知")]
    parts += [f"pod {where.pod}"] if where.pod else []
    parts += [f"rank {where.rank}"] if where.rank is not None else []
    parts += [f"local rank {where.local_rank}"] if where.local_rank is not None else []
    parts += [f"GPU {where.gpu}"] if where.gpu is not None else []
    parts += [answer.device] if answer.device else []
    return ", ".join(parts)


def followed(group: Group, answer: Answer, language: str) -> str:
    """One line of what followed."""
    who = [f"rank {rank_list(group.ranks)[:60]}"] if group.ranks else []
    who += [fold(group.nodes)[:60]] if group.nodes else []
    times = f" x{group.count}" if group.count > 1 else ""
    clock = shown(group.printed_s, zone_s=answer.zone_s).partition(" ")[2] or "-"
    joined = (" on " if language == "en" else "，").join(who)
    return f"{clock} {joined or group.log}{times}: {pick(group.kind.meaning, language)}"


def read_line(answer: Answer, language: str) -> str:
    """How much was read."""
    read = answer.read
    ranks = read.ranks
    if language == "zh":
        of_ranks = f"（{ranks} 个 rank）" if ranks else ""
        logs = f"{read.job_logs} 个作业日志{of_ranks}，{read.kernel_logs} 个内核日志"
        return f"{logs}，{read.lines:,} 行，{_size(read.size_bytes)}"
    of_ranks = f" ({counted(ranks, 'rank')})" if ranks else ""
    logs = f"{counted(read.job_logs, 'job log')}{of_ranks}, {counted(read.kernel_logs, 'kernel log')}"
    return f"{logs}, {read.lines:,} line{'' if read.lines == 1 else 's'}, {_size(read.size_bytes)}"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


def as_json(answer: Answer) -> str:
    """The whole answer. Every text for people is there in both languages."""
    value = {
        "schema": SCHEMA,
        "failed": answer.failed,
        "class": answer.cause.value,
        "sure": answer.sure,
        "nodes_fine": answer.nodes_fine,
        "sentence": _both(answer.sentence),
        "node": answer.where.node or None,
        "pod": answer.where.pod or None,
        "rank": answer.where.rank,
        "local_rank": answer.where.local_rank,
        "gpu": answer.where.gpu,
        "device": answer.device or None,
        "began_epoch_s": answer.began_s,
        "first_error": _event(answer.root) if answer.root else None,
        "meaning": _both(answer.meaning),
        "action": _both(answer.action),
        "failure_modes": answer.failure_modes,
        "why": [_both(reason) for reason in answer.why],
        "followed": [_group(group) for group in answer.followed],
        "overcome": [_group(group) for group in answer.overcome],
        "last_iteration": answer.iteration,
        "last_progress_epoch_s": answer.progress_s,
        "clock_utc_offset_s": answer.zone_s,
        "read": vars(answer.read),
        "notes": answer.notes,
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _both(said: Text) -> dict[str, str]:
    return {"en": said.en, "zh": said.zh}


def _event(event: Event) -> dict[str, object]:
    return {
        "signature": event.kind.id,
        "log": event.log,
        "line": event.line,
        "text": visible(event.text),
        "printed_epoch_s": event.printed_s,
        "time_is_of_a_line_nearby": event.about,
        "ran_s": event.ran_s,
        "count": event.count,
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "signature": group.kind.id,
        "role": group.kind.role.value,
        "class": group.kind.cause.value,
        "meaning": _both(group.kind.meaning),
        "printed_epoch_s": group.printed_s,
        "began_epoch_s": group.first_s,
        "count": group.count,
        "ranks": rank_list(group.ranks) if group.ranks else "",
        "nodes": fold(group.nodes),
        "first_at": f"{group.log}:{group.line}",
        "text": visible(group.text),
    }
