"""The JSON Schemas of docs/reference/, from the records themselves: `python -m support.schemas` writes them."""

import json
from pathlib import Path

from nodegate.records.finding import Record
from nodegate.records.store import schema
from nodegate.report.json_file import ReportFile

DOCS = Path(__file__).parents[2] / "docs" / "reference"
SCHEMAS = {
    "results": schema(Record, "a line of results.jsonl.gz of a nodegate run: one check of one node"),
    "report": schema(ReportFile, "report.json of a nodegate run, schema nodegate.report/4"),
}


def written(name):
    """The text of docs/reference/NAME.schema.json."""
    return json.dumps(SCHEMAS[name], indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in SCHEMAS:
        (DOCS / f"{each}.schema.json").write_text(written(each), encoding="utf-8")
