"""report.json of nodegate 0.2, schema `nodegate.report/3`: read for one release more."""

import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.files.strict_json import loads
from nodegate.records.from_02 import OLDER, RESULTS, TABLES, is_cut
from nodegate.records.store import converted
from nodegate.report.json_file import ReportFile

SCHEMA = "nodegate.report/3"
MOST_BYTES = 1 << 30  # of the results of a run
_NONE: dict[str, object] = {"fleet_result": None, "policy": None, "started": "", "finished": ""}
_NEW = {**_NONE, "causes": [], "fleet": []}
_SHOWN = {"why": "", "signed": "", "left_out": False, "amounts": []}


def upgraded(raw: bytes, folder: Path) -> ReportFile:
    """The report in the form of today, without what is made from the rest anyway: causes and statistics.

    Raises:
        ValueError: it is not such a report.
        UsageError: the results beside it are not those that it was made from.
    """
    try:
        document: dict[str, Any] = loads(raw)  # type: ignore[assignment]
        by = document["claims"]
        details = document["details"]
        found = {
            **document,
            **_NEW,
            "claims": dict.fromkeys(by, ""),
            "nodes": [{**node, "claims": [_shown(each, by) for each in node["claims"]]} for node in document["nodes"]],
        }
        for name, known in ((TABLES, details["tables_sha256"]), (RESULTS, document["results_sha256"])):
            _check(folder / name, known)
        if "policy" in document:
            found["policy"] = _policy(document["policy"])
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"it lacks {str(error)[:80]}") from error
    return converted(ReportFile, found)


def _check(file: Path, known: str) -> None:
    try:
        lines = BytesIO(read_whole(file, MOST_BYTES))
    except OSError as error:
        raise UsageError(f"cannot be read ({error.strerror})", file=str(file), hint=OLDER) from error
    if hashlib.sha256(b"".join(sorted(lines))).hexdigest() != known:
        said = "is cut off" if file.name == RESULTS and is_cut(file.parent) else "does not belong to this report.json"
        raise UsageError(said, file=str(file), hint=OLDER)


def _shown(claim: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    return {"by": by[claim["claim"]], **_SHOWN, **claim, "is_waived": claim.get("waived", False)}


def _policy(policy: dict[str, Any]) -> dict[str, Any]:
    items = [{**each, "defect_class": each["class"]} for each in policy["items"]]
    return {**policy, "items": {each["claim"]: each for each in items}}
