"""The answer as text for people and as one JSON object for programs."""

# ruff: noqa: RUF001 - Chinese punctuation
import json
from collections.abc import Iterable
from dataclasses import asdict

from nodegate import text as texts
from nodegate.watch.answer import Answer, Silent, Slow, counted, of_one

SCHEMA = "nodegate.watch/1"
MOST_LINES = 50  # of slow times and silences that the text shows


def text(answer: Answer, log: str, language: str = "en", *, found: bool = True) -> Iterable[str]:
    """The result, the worst first, without what was `found` if it was printed before; the last line is the answer."""
    every: list[Slow | Silent] = [*answer.slow, *answer.silent] if found else []
    yield from (each.line for each in every[-MOST_LINES:])
    if len(every) > MOST_LINES:
        yield f"({len(every) - MOST_LINES} more before these)"
    note, notes = ("注意：", answer.notes_zh) if language == "zh" else ("note: ", answer.notes)
    yield from (f"{note}{each}" for each in notes)
    yield f"{log}: {headline(answer)}"


def headline(answer: Answer) -> str:
    """The answer in one sentence."""
    state = answer.state.value
    if not answer.points:
        return f"{state}: {answer.reason}"
    ms = (answer.usual_s or 0.0) * 1000
    shown = f"{ms:.1f} ms" if ms >= 1 else f"{ms:.4g} ms"
    usual = "" if answer.usual_s is None else f", usually {shown}{of_one(answer.per)}"
    end = ", ended with an error" if answer.died else ", finished" if answer.finished else ""
    kinds = ((answer.slow, "slow time"), (answer.silent, "silence"))
    said = " and ".join(texts.counted(len(found), noun) for found, noun in kinds if found) or answer.reason
    return f"{state}: {said}; {counted(answer.per)}s {answer.first}-{answer.last} ({answer.source}){usual}{end}"


def event(found: Slow | Silent) -> str:
    """A finding that begins or ends, as one JSON object on one line."""
    return json.dumps({"event": "slow" if isinstance(found, Slow) else "silent", **_fields(found)})


def answer_json(answer: Answer, log: str) -> str:
    """The whole answer as one JSON object on one line; its schema is described in docs/guide/watch.md."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "log": log,
            "state": answer.state.value,
            "reason": answer.reason,
            "format": answer.source,
            "measurements": answer.points,
            "first_iteration": answer.first,
            "last_iteration": answer.last,
            "per": answer.per,
            "usual_ms": None if answer.usual_s is None else _ms(answer.usual_s),
            "finished": answer.finished,
            "ended_with_error": answer.died,
            "slow": [_fields(each) for each in answer.slow],
            "silent": [_fields(each) for each in answer.silent],
            "compared_with": answer.compared_with,
            "period": None if answer.period is None else asdict(answer.period),
            "restarts": [list(each) for each in answer.restarts],
            "notes": list(answer.notes),
            "notes_zh": list(answer.notes_zh),
        }
    )


def _fields(found: Slow | Silent) -> dict[str, object]:
    if isinstance(found, Silent):
        return {**asdict(found), "line": found.line}
    return {
        "since": found.since,
        "until": found.until,
        "time": found.time,
        "window": list(found.window),
        "smoothed_ms": _ms(found.smoothed_s),
        "baseline_ms": _ms(found.baseline_s),
        "by": "mean",
        "per": found.per,
        "excess": round(found.excess, 4),
        "slowest_rank": found.slowest_rank,
        "against": found.against,
        "line": found.line,
    }


def _ms(seconds: float) -> float:
    """Milliseconds; of a token's time enough figures."""
    ms = seconds * 1000
    return round(ms, 3) if ms >= 1 else float(f"{ms:.4g}")
