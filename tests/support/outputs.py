"""What `--json` of each command prints, as types: their JSON Schemas are made from them (support.schemas)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, TypedDict, get_type_hints

from nodegate.commands.doctor import Complaint
from nodegate.commands.drain_plan import Drain, Left
from nodegate.engines.kubernetes.write import Done
from nodegate.everywhere.fold import Answer
from nodegate.everywhere.stacks import Rank
from nodegate.notices.message import Notice
from nodegate.past.difference import Difference
from nodegate.past.lemon import Figures
from nodegate.past.whole import Past
from nodegate.records.finding import Record
from nodegate.triage.reasons import Read
from nodegate.watch.answer import Silent
from nodegate.watch.pattern import Period

OPTIONAL = {"stacks"}  # keys that are there with an option alone


def _like(kind: type, **more: Any) -> dict[str, Any]:
    """The keys of a dataclass, and more."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)} | more


def _rows(name: str, **keys: Any) -> Any:
    return list[TypedDict(name, keys)]  # type: ignore[misc, operator]


def _object(name: str, **keys: Any) -> Any:
    return TypedDict(name, {key.rstrip("_"): each for key, each in keys.items()})  # type: ignore[operator]


def _list(of: Any) -> Any:
    return list[of]


BOTH = _object("Text", en=str, zh=str)
PLACES = _list(_object("Place", node=str, gpu=int | None, pod=str | None))
EVENT = _object(
    "Event",
    **dict.fromkeys(("signature", "log", "text"), str),
    **dict.fromkeys(("line", "count"), int),
    **dict.fromkeys(("printed_epoch_s", "ran_s"), float | None),
    time_is_of_a_line_nearby=bool,
)
GROUPS = _rows(
    "Group",
    **dict.fromkeys(("signature", "role", "class", "ranks", "nodes", "first_at", "text"), str),
    **dict.fromkeys(("printed_epoch_s", "began_epoch_s"), float | None),
    meaning=BOTH,
    count=int,
    devices=list[str],
)
STALL = _object(
    "Stall",
    **dict.fromkeys(("operation", "group", "sizes", "waiting", "behind", "not_known"), str),
    sequence=int | None,
    since_epoch_s=float | None,
)
TRIAGE = {
    **dict.fromkeys(("failed", "sure", "recognised", "began_after"), bool),
    **dict.fromkeys(("class", "ranks", "nodes"), str),
    **dict.fromkeys(("node", "pod", "device"), str | None),
    **dict.fromkeys(("rank", "local_rank", "gpu", "last_iteration"), int | None),
    **dict.fromkeys(("began_epoch_s", "last_progress_epoch_s", "clock_utc_offset_s"), float | None),
    **dict.fromkeys(("sentence", "meaning", "action"), BOTH),
    **dict.fromkeys(("followed", "overcome"), GROUPS),
    **dict.fromkeys(("notes", "notes_zh", "failure_modes"), list[str]),
    "nodes_fine": bool | None,
    "worth_reading": _rows("Line", log=str, line=int, text=str),
    "first_error": EVENT | None,
    "advice": _object("Advice", do=str, without=list[str], exclude=str, sure=bool),
    "why": _list(BOTH),
    "stall": STALL | None,
    "read": Read,
}
SLOW = _rows(
    "Slow",
    **dict.fromkeys(("time", "by", "per", "against", "line"), str),
    **dict.fromkeys(("smoothed_ms", "baseline_ms", "excess"), float),
    **dict.fromkeys(("until", "slowest_rank"), int | None),
    since=int,
    window=tuple[int, int],
)
WATCH = {
    **dict.fromkeys(("log", "state", "reason", "per", "compared_with"), str),
    **dict.fromkeys(("first_iteration", "last_iteration"), int | None),
    **dict.fromkeys(("finished", "ended_with_error"), bool),
    **dict.fromkeys(("notes", "notes_zh"), list[str]),
    "format": str | None,
    "measurements": int,
    "usual_ms": float | None,
    "slow": SLOW,
    "silent": _rows("Silence", **_like(Silent, line=str)),
    "period": Period | None,
    "restarts": list[tuple[int, int]],
}
JOB = {
    "class": str,
    "since": str | None,
    "where": PLACES,
    **dict.fromkeys(("why", "do", "notes", "not_judged"), list[str]),
    "findings": _list(_object("Finding", class_=str, where=PLACES, since=str | None, why=list[str])),
}
LEMON = {
    **dict.fromkeys(("what", "part", "node", "slot", "platform", "advice", "do"), str),
    **dict.fromkeys(("days", "days_looked_at", "days_with_a_fault"), int),
    **dict.fromkeys(("expected", "first_epoch_s", "last_epoch_s"), float),
    "chance": float | None,
    "nodes": list[str],
    "kinds": dict[str, int],
    "reset_helps": bool,
}
LEMONS = {
    **dict.fromkeys(("since_epoch_s", "until_epoch_s"), float),
    "fleet": Figures,
    "lemons": _rows("Lemon", **LEMON),
    "reset_does_not_help": _rows("Recurring", part=str, node=str, slot=str, why=str),
    "not_compared": list[str],
}
STACKS = _object(
    "Stacks",
    groups=_rows("Stack", is_odd=bool, ranks=list[Rank]),
    unread=list[Rank],
    missing=list[str],
    hidden=int,
)
OUTPUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bootcheck": (
        "nodegate.run.bootcheck/2",
        {
            "answer": Literal["fit", "unfit", "unknown", "busy"],
            "exit_code": int,
            "line": str,
            "demands": str,
            "results": list[Record],
        },
    ),
    "diff": ("nodegate.diff/1", {"before": str, "after": str, **_like(Difference)}),
    "doctor": (
        "nodegate.doctor/1",
        {"ready": list[str], "nodes": list[str], "notes": list[str], "obstacles": list[Complaint]},
    ),
    "drain-plan": (
        "nodegate.drain-plan/1",
        {"run": str, "profile": str, "drain": list[Drain], "not_drained": list[Left]},
    ),
    "exec": (
        "nodegate.exec/1",
        {
            "command": list[str],
            "limit_s": float,
            "groups": _rows("Answers", nodes=list[str], **_like(Answer)),
            "stacks": STACKS,
            "exit_code": int,
        },
    ),
    "gang": ("nodegate.gang/1", {"verdict": str, "job": str, "nodes": list[str], "bad": list[str], "why": str}),
    "history": ("nodegate.history/1", {"of": list[Past]}),
    "job": ("nodegate.job/1", JOB),
    "kubernetes-verdict": ("nodegate.kubernetes-verdict/1", {"run": str, "done": list[Done]}),
    "lemons": ("nodegate.lemons/1", LEMONS),
    "notice": ("nodegate.notice/1", _like(Notice)),
    "triage": ("nodegate.triage/1", TRIAGE),
    "verify": (
        "nodegate.verify/1",
        {
            **dict.fromkeys(("run", "manifest_sha256"), str),
            **dict.fromkeys(("nodes", "files"), int),
            "equal": bool,
            "differences": list[str],
        },
    ),
    "watch": ("nodegate.watch/1", WATCH),
}
