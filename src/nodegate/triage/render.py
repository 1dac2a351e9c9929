"""An answer as about ten lines of text for a person, and as JSON for a program."""

# ruff: noqa: RUF001 - Chinese punctuation
import json
import re
from collections.abc import Iterator

from nodegate.inventory.hostlist import fold
from nodegate.knowledge.words import Cause, Text
from nodegate.text import counted, visible
from nodegate.triage.answer import Answer
from nodegate.triage.clock import dated_s, shown, zone_name
from nodegate.triage.events import Event
from nodegate.triage.waits import Stall
from nodegate.triage.wording import SAME_MOMENT_S, Group, cut, cut_middle, lasting, rank_list

SCHEMA = "nodegate.triage/1"
_MOST_WHY = 4
_MOST_WORTH = 6
_MOST_FOLLOWED = 4
_MOST_NOTES = 3
_WIDTH = 160
_ADDRESS = re.compile(r"[0-9.]{7,15}|[0-9a-fA-F:.]{0,40}:[0-9a-fA-F:.]{1,40}")
_ENGLISH = ("when", "where", "first", "why", "do", "then", "also", "last", "read", "note", "past", "line")
_CHINESE = ("时间", "位置", "首错", "依据", "处理", "随后", "另有", "进度", "已读", "注意", "曾有", "原文")
_LABELS = {"en": dict(zip(_ENGLISH, _ENGLISH, strict=True)), "zh": dict(zip(_ENGLISH, _CHINESE, strict=True))}


def text(answer: Answer, language: str = "en") -> str:
    """About ten lines: the answer first."""
    lines = [answer.sentence.of(language)]
    lines += [f"  {label:<6} {said}" for label, said in _rows(answer, language)]
    return "\n".join(visible(line, most=_WIDTH * 3) for line in lines)


def _rows(answer: Answer, language: str) -> Iterator[tuple[str, str]]:
    labels = _LABELS[language]
    yield from facts(answer, language, most_why=_MOST_WHY)
    others = [group for group in answer.followed if not _of_the_same(group, answer)]
    for group in others[:_MOST_FOLLOWED]:  # what was printed before the first error does not follow it
        times = group.printed_s, answer.began_s
        before = None not in times and (times[0] or 0.0) < (times[1] or 0.0)
        yield labels["also" if before else "then"], followed(group, answer, language)
    if len(others) > _MOST_FOLLOWED:
        yield labels["then"], _more(len(others) - _MOST_FOLLOWED, "kind", "类").of(language)
    for group in answer.overcome[:_MOST_FOLLOWED] if not answer.failed else ():
        yield labels["past"], followed(group, answer, language)
    for note in answer.notes[:_MOST_NOTES]:
        yield labels["note"], note.text.of(language)
    if len(answer.notes) > _MOST_NOTES:
        yield labels["note"], _more(len(answer.notes) - _MOST_NOTES, "note", "条").of(language)


def _more(count: int, noun: str, counter: str) -> Text:
    return Text(f"... {counted(count, f'more {noun}')} (--json)", f"…… 还有 {count} {counter}（--json）")


def _of_the_same(group: Group, answer: Answer) -> bool:
    """Whether this is nothing but the first error once more: its kind, on its rank, node and device."""
    root = answer.root
    return (
        root is not None
        and group.kind.id == root.kind.id
        and set(group.nodes) <= {root.place.node}
        and set(group.ranks) <= {root.place.rank}
        and set(group.devices) <= {root.device}
    )


def facts(answer: Answer, language: str, *, most_why: int = 100) -> list[tuple[str, str]]:
    """The rows under the sentence: where, when, the first line, why, what to do, how far the job got, what was read."""
    labels, root = _LABELS[language], answer.root
    rows = []
    if root is not None or answer.where.node or answer.where.pod or answer.where.rank is not None:
        rows += [(labels["where"], place_of(answer, language))]
    if root is not None:
        rows += [(labels["when"], when(answer, root).of(language))]
        rows += [(labels["first"], f"{root.log}:{root.line}: {cut_middle(root.text, _WIDTH)}")]
    rows += [(labels["why"], reason.of(language)) for reason in answer.why[:most_why]]
    if len(answer.why) > most_why:
        rows += [(labels["why"], _more(len(answer.why) - most_why, "reason", "条").of(language))]
    if answer.failed:
        option = answer.advice.exclude  # how to start the job without the nodes whose fault is sure
        en, zh = f"; restart the job without it (Slurm: {option})", f"；重启作业时排除该节点（Slurm：{option}）"
        rows += [(labels["do"], answer.action.of(language) + (Text(en, zh).of(language) if option else ""))]
    worth = (f"{each.log}:{each.line}: {cut(each.text, _WIDTH)}" for each in answer.worth[:_MOST_WORTH])
    rows += [(labels["line"], each) for each in worth]
    if answer.iteration is not None:
        rows += [(labels["last"], _progress(answer.iteration, answer).of(language))]
    return [*rows, (labels["read"], read_line(answer, language))]


def _progress(iteration: int, answer: Answer) -> Text:
    if answer.progress_s is None:
        return Text(f"the training completed iteration {iteration}", f"训练完成了第 {iteration} 次迭代")
    clock = shown(answer.progress_s, zone_s=answer.zone_s)
    en, zh = f"the training completed iteration {iteration} at {clock}", f"训练在 {clock} 完成第 {iteration} 次迭代"
    early_s = (answer.began_s or 0.0) - answer.progress_s
    if answer.root is None or answer.root.about or answer.began_after or early_s < SAME_MOMENT_S:
        return Text(en, zh)
    far = lasting(early_s)
    what, what_zh = ("the hang began", "挂起开始") if answer.root.ran_s else ("the first error", "出现首个错误")
    return Text(f"{en}, {far.en} before {what}", f"{zh}，{far.zh}后{what_zh}")


def when(answer: Answer, root: Event) -> Text:
    """When it began."""
    if root.printed_s is None or answer.began_s is None:
        return Text("unknown: its line has no time", "未知：该行没有时间")
    clock = f"{shown(answer.began_s, zone_s=answer.zone_s)} {zone_name(answer.zone_s)}"
    if answer.began_after:
        return Text(f"after {clock}: its line has no time", f"晚于 {clock}：该行没有时间")
    if dated_s(answer.began_s) is None:
        clock = shown(answer.began_s).partition(" ")[2]
        return Text(f"{clock}: no log has a date", f"{clock}：日志中没有日期")
    return Text(f"{clock} (about)", f"{clock}（约）") if root.about else Text(clock, clock)


def place_of(answer: Answer, language: str) -> str:
    """Node, rank, GPU and device, as far as they are known."""
    where = answer.where
    parts = [_machine(answer).of(language)]
    parts += [f"pod {fold(answer.pods)}"] if answer.pods and answer.nodes else []
    if len(answer.ranks) > 1:
        parts += [f"rank {rank_list(answer.ranks)}"]
    else:
        parts += [f"rank {where.rank}"] if where.rank is not None else []
        parts += [f"local rank {where.local_rank}"] if where.local_rank is not None else []
        parts += [f"GPU {where.gpu}"] if where.gpu is not None else []
    parts += [answer.device] if answer.device else []
    return ("，" if language == "zh" else ", ").join(parts)


def _machine(answer: Answer) -> Text:
    """The node or nodes; if no log names it, the pod or address that one names."""
    where = answer.where
    if len(answer.nodes) > 1:
        return Text(fold(answer.nodes), fold(answer.nodes))
    if _ADDRESS.fullmatch(where.node):
        return Text(
            f"the node with the address {where.node} (no log names it)",
            f"地址为 {where.node} 的节点（日志中没有其名称）",
        )
    if where.node:
        return Text(where.node, where.node)
    if pods := fold(answer.pods):
        return Text(f"pod {pods} (node not known: give --map)", f"pod {pods}（所在节点未知，可用 --map 给出）")
    known = answer.device or answer.ranks or where.gpu is not None or where.local_rank is not None
    return Text("node not known", "节点未知") if known else Text("not known", "未知")


def followed(group: Group, answer: Answer, language: str) -> str:
    """One line of what followed. A rank prints an error once or twice: only more is counted."""
    who = [f"rank {cut(rank_list(group.ranks), 60)}"] if group.ranks else []
    who += [cut(fold(group.nodes), 60)] if group.nodes else []
    times = f" x{group.count}" if group.count > max(1, 2 * len(group.ranks)) else ""
    clock = "" if group.printed_s is None else f"{shown(group.printed_s, zone_s=answer.zone_s).partition(' ')[2]} "
    joined, colon = ("，".join(who), "：") if language == "zh" else (" on ".join(who), ": ")
    return f"{clock}{joined or group.log}{times}{colon}{group.kind.meaning.of(language)}"


def read_line(answer: Answer, language: str) -> str:
    """How much was read."""
    read = answer.read
    size = f"{read.size_bytes / 1e6:,.1f} MB" if read.size_bytes >= 1e6 else f"{read.size_bytes / 1e3:.1f} kB"
    if language == "zh":
        of_ranks = f"（{read.ranks} 个 rank）" if read.ranks else ""
        logs = f"{read.job_logs} 个作业日志{of_ranks}，{read.kernel_logs} 个内核日志"
        dumps = f"，{read.dumps} 个 flight recorder 转储" if read.dumps else ""
        return f"{logs}{dumps}，{read.lines:,} 行，{size}"
    of_ranks = f" ({counted(read.ranks, 'rank')})" if read.ranks else ""
    logs = f"{counted(read.job_logs, 'job log')}{of_ranks}, {counted(read.kernel_logs, 'kernel log')}"
    logs += f", {counted(read.dumps, 'flight-recorder dump')}" if read.dumps else ""
    return f"{logs}, {read.lines:,} line{'' if read.lines == 1 else 's'}, {size}"


def as_json(answer: Answer) -> str:
    """The whole answer. Every text for people is there in both languages."""
    root, advice = answer.root, answer.advice
    value = {
        "schema": SCHEMA,
        "failed": answer.failed,
        "class": answer.cause.value,
        "sure": answer.sure,
        "nodes_fine": None if answer.cause is Cause.ENVIRONMENT else answer.nodes_fine,
        "sentence": _both(answer.sentence),
        "node": answer.where.node or None,
        "pod": answer.where.pod or None,
        "rank": answer.where.rank,
        "local_rank": answer.where.local_rank,
        "gpu": answer.where.gpu,
        "ranks": rank_list(answer.ranks) if answer.ranks else "",
        "nodes": fold(answer.nodes),
        "device": answer.device or None,
        "recognised": answer.recognised,
        "worth_reading": [{"log": each.log, "line": each.line, "text": visible(each.text)} for each in answer.worth],
        "began_epoch_s": dated_s(answer.began_s),
        "first_error": root
        and {
            "signature": root.kind.id,
            "log": root.log,
            "line": root.line,
            "text": visible(root.text),
            "printed_epoch_s": dated_s(root.printed_s),
            "time_is_of_a_line_nearby": root.about,
            "ran_s": root.ran_s,
            "count": root.count,
        },
        "meaning": _both(answer.meaning),
        "action": _both(answer.action),
        "advice": {"do": advice.do, "without": advice.without, "exclude": advice.exclude, "sure": advice.sure},
        "failure_modes": answer.failure_modes,
        "why": [_both(reason) for reason in answer.why],
        "followed": [_group(group) for group in answer.followed],
        "overcome": [_group(group) for group in answer.overcome],
        "last_iteration": answer.iteration,
        "last_progress_epoch_s": answer.progress_s,
        "stall": _stall(answer.stall) if answer.stall else None,
        "began_after": answer.began_after,
        "clock_utc_offset_s": answer.zone_s,
        "read": vars(answer.read),
        "notes": [note.text.en for note in answer.notes],
        "notes_zh": [note.text.zh for note in answer.notes],
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _both(said: Text) -> dict[str, str]:
    return {"en": said.en, "zh": said.zh}


def _stall(stall: Stall) -> dict[str, object]:
    wait = stall.wait
    ranks = {"waiting": wait.waiting, "behind": stall.behind, "not_known": wait.unknown}
    return {
        "operation": visible(wait.operation),
        "sequence": wait.sequence,
        "group": visible(wait.group),
        "sizes": visible(wait.sizes),
        "since_epoch_s": wait.since_s or None,
        **{name: rank_list(found) if found else "" for name, found in ranks.items()},
    }


def _group(group: Group) -> dict[str, object]:
    return {
        "signature": group.kind.id,
        "role": group.kind.role.value,
        "class": group.kind.cause.value,
        "meaning": _both(group.kind.meaning),
        "printed_epoch_s": dated_s(group.printed_s),
        "began_epoch_s": dated_s(group.first_s),
        "count": group.count,
        "ranks": rank_list(group.ranks) if group.ranks else "",
        "nodes": fold(group.nodes),
        "devices": group.devices,
        "first_at": f"{group.log}:{group.line}",
        "text": visible(group.text),
    }
