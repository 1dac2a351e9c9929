"""dcgmi diag: the results of DCGM's own diagnostics, from -j or as the table for people.

nodegate runs no dcgmi by itself, so no check stands on it: this is for whoever keeps its answer as evidence.

Traps: the JSON stands behind other text at times; its root is "DCGM GPU Diagnostic" up to 3.x and "DCGM Diagnostic"
with 4.x; words of status come in any case; the numbers of error_severity changed with 3.3.1, so that the release has
to be read first; a test that was not run is left out. The exit code (226: a test failed, 205: isolate, 203: killed,
235: no host engine) decides nothing. Source: NVIDIA/DCGM, dcgmi/Diag.cpp and testing/python3/dcgm_diag_schema.json.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nodegate.probe import readings as read
from nodegate.probe.readings import shown
from nodegate.tools.dcgmi_result import Diagnosis, Result, Test, Warned, bad, severity, status_in
from nodegate.tools.dcgmi_table import is_table, parse_table
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_TEXT = 2 << 20
MAX_MESSAGE = 1000
MAX_RESULTS = 4096  # of one test
MAX_GPUS = 1024
MAX_TESTS = 256
_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_ROOT = re.compile(r'"DCGM (?:GPU )?Diagnostic"')
_OPENED = re.compile(r"^[ \t]{0,20}\{", re.MULTILINE)
_IDS = re.compile(r"[0-9]{1,5}(?: ?, ?[0-9]{1,5}){0,1023}")


def parse(stdout: str) -> Diagnosis:
    """What `dcgmi diag` printed, with -j or without.

    Raises:
        CannotMeasure: it is empty, cut off or something else; it judged nothing; DCGM could not run it at all.
    """
    if not stdout.strip():
        raise bad("is empty")
    if len(stdout) > MAX_TEXT:
        raise bad(f"is longer than {MAX_TEXT} characters")
    if _OPENED.search(stdout) or _ROOT.search(stdout):
        found = _diagnosis(_document(stdout))
    elif is_table(stdout):
        found = parse_table(stdout)
    else:
        raise bad(f"holds no result: {_last_line(stdout)}")
    if not found.tests and not found.errors:
        raise bad(f"holds no test: {_last_line(stdout)}")
    if len(found.tests) > MAX_TESTS or len(found.gpus) > MAX_GPUS:
        raise bad(f"holds more than {MAX_TESTS} tests or {MAX_GPUS} GPUs")
    return found


def _document(written: str) -> Mapping[str, object]:
    """The JSON in it; text before and behind is not ours, another result is."""
    opened = _OPENED.search(written)
    start = opened.end() - 1 if opened else written.find("{")
    if start < 0:
        raise bad(f"is cut off at: {_last_line(written)}")
    try:
        whole, end = json.JSONDecoder().raw_decode(written, start)
    except json.JSONDecodeError as error:
        line = written[written.rfind("\n", 0, error.pos) + 1 :][:200].split("\n", 1)[0].strip()
        raise bad(f"is cut off or broken at line {error.lineno}: {shown(line, 120) or _last_line(written)}") from None
    except (ValueError, RecursionError):
        raise bad("is no JSON that can be read: too deep, or a number too long") from None
    if _ROOT.search(written, end):
        raise bad("holds the results of several runs")
    return whole if isinstance(whole, dict) else {}


def _diagnosis(whole: Mapping[str, object]) -> Diagnosis:
    root = next((whole[name] for name in _ROOTS if name in whole), None)
    if not isinstance(root, dict):
        raise bad(f"is JSON without {' or '.join(_ROOTS)}: {shown(', '.join(list(whole)[:8]), 120)}")
    for place in (root, whole):
        if place.get("runtime_error"):
            raise bad(f"says that it did not run: {shown(place['runtime_error'], 300)}")
    places = (_object(whole.get("metadata")), root, whole)
    version = _first(places, "version")
    return Diagnosis(
        version=version,
        driver=_first(places, "Driver Version Detected"),
        tests=tuple(_tests(root, version)),
        listed=tuple(_gpus(whole)),
    )


def _tests(root: Mapping[str, object], version: Known[str]) -> Iterator[Test]:
    for category in _list(root, "test_categories"):
        name = category.get("category")
        for test in _list(category, "tests"):
            yield _test(name, test, version)


def _test(category: object, test: Mapping[str, object], version: Known[str]) -> Test:
    """A test; its summary (4.x) is a result for all, with warnings of its own."""
    if not isinstance(test.get("name"), str):
        raise bad(f"has a test without a name in the category {shown(category)}")
    rows = _list(test, "results")
    if "test_summary" in test:
        rows = [*rows, _object(test["test_summary"])]
    results: list[Result] = []
    warnings: list[Warned] = []
    info: list[str] = []
    for row in rows:
        entities = _named(row)
        status = status_in(row.get("status"))
        results += [Result(entity, status) for entity in entities]
        if len(results) > MAX_RESULTS:
            raise bad(f"holds more than {MAX_RESULTS} results of {shown(test['name'])}")
        named = entities[0] if len(entities) == 1 else ""
        warnings += [_warned(named, each, version) for each in _several(row.get("warnings"))]
        info += [shown(each, MAX_MESSAGE) for each in _several(row.get("info")) if each]
    return Test(shown(category), shown(test["name"]), tuple(results), tuple(warnings), tuple(info))


def _named(row: Mapping[str, object]) -> tuple[str, ...]:
    """Whom a result is of: `entity_group` with `entity_id` (4.x), `gpu_id` or `gpu_ids` (older), else all."""
    if "entity_id" in row:
        group, number = row.get("entity_group"), row["entity_id"]
        if not isinstance(group, str) or isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise bad(f"has a result of {shown(group)} {shown(number)}, which is no entity")
        return (f"{shown(group, 30)} {shown(number)}",)
    ids = row.get("gpu_id", row.get("gpu_ids"))
    if ids is None:
        return ("",)
    text = str(ids) if isinstance(ids, int) and not isinstance(ids, bool) and 0 <= ids < MAX_RESULTS else ids
    if not isinstance(text, str) or not _IDS.fullmatch(text):
        raise bad(f"has a result of the GPU {shown(ids)}")
    return tuple(f"GPU {int(each)}" for each in text.split(","))


def _warned(entity: str, value: object, version: Known[str]) -> Warned:
    """A warning: an object, or only its sentence in old releases."""
    data = value if isinstance(value, dict) else {"warning": value}
    return Warned(
        entity=entity,
        message=shown(data.get("warning", ""), MAX_MESSAGE),
        error_id=read.integer(data, "error_id"),
        error_category=read.integer(data, "error_category"),
        severity=severity(read.integer(data, "error_severity"), version),
    )


def _gpus(whole: Mapping[str, object]) -> Iterator[str]:
    """The GPUs that a run of 4.x was for. Other entities (CPUs, cores) are listed without a test of their own."""
    for group in _list(whole, "entity_groups"):
        if group.get("entity_group") == "GPU":
            yield from (f"GPU {shown(each.get('entity_id'))}" for each in _list(group, "entities"))


def _first(places: Sequence[Mapping[str, object]], key: str) -> Known[str]:
    found = next((place[key] for place in places if place.get(key)), None)
    return Unknown(Why.MISSING, f"dcgmi names no {key}") if found is None else read.label(found)


def _list(data: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """A list of objects; absent is empty, anything else is no output of dcgmi."""
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise bad(f"has {key} that are no list of objects")
    return value


def _several(value: object) -> list[object]:
    """A list, or the one value that stands in its place."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _last_line(written: str) -> str:
    return shown(written.rstrip()[-400:].splitlines()[-1].strip(), 120)
