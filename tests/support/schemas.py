"""The JSON Schemas of docs/reference/schemas/, from the records themselves: `python -m support.schemas` writes them."""

import json
from pathlib import Path
from typing import Any, Literal, TypedDict

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from support.outputs import OPTIONAL, OUTPUTS

from nodegate.records.finding import Record
from nodegate.records.store import schema
from nodegate.report.json_file import ReportFile

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"
SCHEMAS = {
    "results": schema(Record, "a line of results.jsonl.gz of a nodegate run: one check of one node"),
    "report": schema(ReportFile, "report.json of a nodegate run, schema nodegate.report/4"),
}


def _of_output(name: str) -> dict[str, Any]:
    number, keys = OUTPUTS[name]
    of = "the body of a notice" if name == "notice" else f"what nodegate {name.replace('-v', ' v')} --json prints"
    kind = TypedDict("Output", {"schema": Literal[number], **keys})  # type: ignore[misc, valid-type]
    found = schema(kind, f"{of}, schema {number}")
    found["$defs"]["Output"]["required"] = [key for key in ("schema", *keys) if key not in OPTIONAL]
    return found


SCHEMAS |= {name: _of_output(name) for name in OUTPUTS}
_NAMES = {number: name for name, (number, _) in OUTPUTS.items()}


def written(name: str) -> str:
    """The text of NAME.schema.json."""
    return json.dumps(SCHEMAS[name], indent=2, ensure_ascii=False) + "\n"


def read_output(text: str) -> dict[str, Any]:
    """One object that a command printed; it fits the schema that it names first."""
    found: dict[str, Any] = json.loads(text)
    assert next(iter(found)) == "schema"
    shipped = json.loads((DOCS / f"{_NAMES[found['schema']]}.schema.json").read_text("utf-8"))
    Draft202012Validator(shipped).validate(found)
    return found


if __name__ == "__main__":
    for each in SCHEMAS:
        (DOCS / f"{each}.schema.json").write_text(written(each), encoding="utf-8")
