"""A report read back from its report.json: to render it again, redact it, compare it or send it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from nodegate.errors import UsageError
from nodegate.files.source import Source
from nodegate.files.strict_json import loads
from nodegate.records.claim import Amount, Shown, State
from nodegate.records.verdict import NodeVerdict
from nodegate.report import jsonl, policy_json
from nodegate.report.json_file import SCHEMA, Details
from nodegate.report.jsonl import MOST_SECONDS, from_json
from nodegate.report.model import CheckInfo, Drift, NodeReport, Report, Run, by_check
from nodegate.report.results_file import RESULTS, cut_line, read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nodegate.records.finding import Record

_T = TypeVar("_T")
_EARLIER = "nodegate.report/2"  # it had the results in it
_OLD_SCHEMA = "nodegate.report/1"  # its findings were sentences


def load(path: Path) -> Report:
    """The report of a run folder's report.json; its nodes stand worst first, as they do there.

    Raises:
        UsageError: the file is missing, is no report of this schema, or was changed by hand and no longer fits.
    """
    try:
        document = loads(path.read_bytes())
    except OSError as error:
        hint = "name the folder of a run that came to its end"
        raise UsageError(f"cannot be read ({error.strerror})", file=str(path), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError("not JSON", file=str(path), hint="render the report again from its run") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(document, dict) or schema not in (SCHEMA, _EARLIER):
        hint = jsonl.OLDER if schema == _OLD_SCHEMA else "another version of nodegate wrote it"
        raise UsageError(f"not a report of schema {SCHEMA}", file=str(path), hint=hint)
    try:
        if schema == _EARLIER:
            return _report(document, map(from_json, _list(document, "results", dict)))
        return _report(document, _results(document, path.parent))
    except UsageError as error:
        if error.file:
            raise
        hint = error.hint or "render the report again from its run"
        raise UsageError(error.message, file=str(path), hint=hint) from error


def _results(document: dict[str, object], folder: Path) -> list[Record]:
    """The results of results.jsonl beside it, if they are those that the report was made from."""
    known, file = _get(document, "details", dict), folder / RESULTS
    found = read(file)
    there = Details.of(folder)
    if (there.results_sha256, there.tables_sha256) != (
        _text(document, "results_sha256"),
        _text(known, "tables_sha256"),
    ):
        hint = "continue the run (pytest --resume), or judge its evidence again (pytest --replay)"
        cut = cut_line(file)
        said = "is cut off in this line" if cut else "is not the one that report.json was made from"
        raise UsageError(said, file=str(file), line=cut, hint=hint)
    return found


def _report(document: dict[str, object], results: Iterable[Record]) -> Report:
    records: dict[str, list[Record]] = {}
    for record in results:
        records.setdefault(record.node, []).append(record)
    checks = {
        _text(entry, "check"): CheckInfo(_text(entry, "title"), _texts(entry, "failure_modes"))
        for entry in _list(document, "checks", dict)
    }
    records = {node: by_check(found, checks) for node, found in records.items()}
    claims = _get(document, "claims", dict) if "claims" in document else {}
    return Report(
        run=_run(_get(document, "run", dict)),
        nodes=tuple(_node(entry, records, claims) for entry in _list(document, "nodes", dict)),
        drift=tuple(_drift(entry) for entry in _list(document, "drift", dict)),
        checks=checks,
        policy=policy_json.from_json(_get(document, "policy", dict)) if "policy" in document else None,
    )


def _run(entry: dict[str, object]) -> Run:
    return Run(
        id=_text(entry, "id"),
        profile=_text(entry, "profile"),
        started_epoch_s=_number(entry, "started_epoch_s"),
        finished_epoch_s=_number(entry, "finished_epoch_s"),
        suite_version=_text(entry, "suite_version"),
        command=_text(entry, "command"),
        host=_text(entry, "host"),
        user=_text(entry, "user"),
        inventory=_sources(entry, "inventory"),
        baselines=_sources(entry, "baselines"),
        interrupted=_get(entry, "interrupted", bool),
        selection=_text(entry, "selection"),
        versions=_text_map(entry, "versions"),
        answer=_text(entry, "answer") if "answer" in entry else "",
        manifest_sha256=_text(entry, "manifest_sha256") if "manifest_sha256" in entry else "",
        evidence=_text(entry, "evidence") if "evidence" in entry else "",
        notes=_texts(entry, "notes") if "notes" in entry else (),
    )


def _sources(entry: dict[str, object], key: str) -> tuple[Source, ...]:
    return tuple(Source(_text(source, "path"), _text(source, "sha256")) for source in _list(entry, key, dict))


def _node(entry: dict[str, object], records: dict[str, list[Record]], claims: dict[str, object]) -> NodeReport:
    name, word = _text(entry, "node"), _text(entry, "verdict")
    if word not in set(NodeVerdict):
        raise UsageError(f"{word[:40]!r} is not a verdict of a node")
    rows = _list(entry, "identity", list)
    if not all(len(row) == 2 and all(isinstance(text, str) for text in row) for row in rows):
        raise UsageError("a row of `identity` is not a pair of texts")
    return NodeReport(
        node=name,
        verdict=NodeVerdict(word),
        platform=_text(entry, "platform"),
        rack=_text(entry, "rack"),
        serials=_text_map(entry, "serials"),
        identity=tuple((label, value) for label, value in rows),
        records=tuple(records.get(name, ())),
        unreachable=_text(entry, "unreachable"),
        gpus=_get(entry, "gpus", int),
        claims=tuple(_claim(each, claims) for each in _list(entry, "claims", dict)) if "claims" in entry else (),
    )


def _claim(entry: dict[str, object], claims: dict[str, object]) -> Shown:
    """A claim; what it says of no node in particular stands once in the report."""
    word = _text(entry, "state")
    if word not in set(State):
        raise UsageError(f"{word[:40]!r} is not a state of a claim")
    signed = _text(entry, "signed") if "signed" in entry else ""
    words = ("left_out", "ended", "waived")
    left_out, ended, waived = (name in entry and _get(entry, name, bool) for name in words)
    amounts = tuple(_amount(each) for each in _list(entry, "amounts", dict)) if "amounts" in entry else ()
    return Shown(
        _text(entry, "claim"),
        State(word),
        _text(entry, "why") if "why" in entry else "",
        _texts(entry, "by") if "by" in entry else _texts(claims, _text(entry, "claim")),
        signed,
        left_out=left_out,
        is_ended=ended,
        is_waived=waived,
        amounts=amounts,
    )


def _amount(entry: dict[str, object]) -> Amount:
    quantity, unit, noun = _text(entry, "quantity"), _text(entry, "unit"), _text(entry, "noun")
    return Amount(quantity, unit, _number(entry, "low"), _number(entry, "high"), _get(entry, "parts", int), noun)


def _drift(entry: dict[str, object]) -> Drift:
    others = _get(entry, "others", dict)
    return Drift(
        platform=_text(entry, "platform"),
        characteristic=_text(entry, "characteristic"),
        majority=_text(entry, "majority"),
        count=_get(entry, "count", int),
        total=_get(entry, "total", int),
        others={value: _texts(others, value) for value in others},
    )


def _get(entry: dict[str, object], key: str, kind: type[_T]) -> _T:
    value = entry.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"`{key[:40]}` is missing or not {_ARTICLE[kind.__name__]}")
    return value


_ARTICLE = {"str": "text", "int": "a whole number", "bool": "true or false", "dict": "an object", "list": "a list"}


def _number(entry: dict[str, object], key: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MOST_SECONDS:
        raise UsageError(f"`{key}` is missing or not a number that can be")
    return float(value)


def _text(entry: dict[str, object], key: str) -> str:
    return _get(entry, key, str)


def _list(entry: dict[str, object], key: str, kind: type[_T]) -> list[_T]:
    values = _get(entry, key, list)
    if not all(isinstance(value, kind) for value in values):
        raise UsageError(f"`{key}` holds something that is not {_ARTICLE[kind.__name__]}")
    return values


def _texts(entry: dict[str, object], key: str) -> tuple[str, ...]:
    return tuple(_list(entry, key, str))


def _text_map(entry: dict[str, object], key: str) -> dict[str, str]:
    return {name: _text(_get(entry, key, dict), name) for name in _get(entry, key, dict)}
