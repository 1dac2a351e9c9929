"""Writes the Grafana board of metrics.prom from board.csv: python deploy/grafana/board.py >nodegate.json."""

from __future__ import annotations

import csv
import json
from itertools import groupby
from pathlib import Path

TABLE = Path(__file__).with_name("board.csv")
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_HIGH, _WIDE = 8, 24
_VARIABLES = {"node": "nodegate_node_verdict", "quantity": "nodegate_measured"}


def panels() -> list[dict[str, object]]:
    """A row for each group of the table, and below it its panels from left to right."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found: list[dict[str, object]] = []
    top = 0
    for name, group in groupby(rows, key=lambda each: each["row"]):
        found.append({"type": "row", "title": name, "gridPos": {"x": 0, "y": top, "w": _WIDE, "h": 1}, "panels": []})
        top, left = top + 1, 0
        for each in group:
            wide = int(each["width"])
            if left + wide > _WIDE:
                top, left = top + _HIGH, 0
            found.append(_panel(each, {"x": left, "y": top, "w": wide, "h": _HIGH}))
            left += wide
        top += _HIGH
    return [{"id": number, **each} for number, each in enumerate(found, start=1)]


def _panel(each: dict[str, str], place: dict[str, int]) -> dict[str, object]:
    is_now = each["kind"] != "timeseries"
    target: dict[str, object] = {"refId": "A", "expr": each["expr"], "datasource": _SOURCE}
    target |= {"instant": is_now, "range": not is_now, "format": "table" if each["kind"] == "table" else "time_series"}
    return {
        "type": each["kind"],
        "title": each["title"],
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": [target | ({"legendFormat": each["legend"]} if each["legend"] else {})],
        "fieldConfig": {"defaults": {"unit": each["unit"]} if each["unit"] else {}, "overrides": []},
        "options": {},
    }


def _variable(label: str, metric: str) -> dict[str, object]:
    query = f"label_values({metric}, {label})"
    return {"name": label, "type": "query", "datasource": _SOURCE, "query": query, "definition": query, "refresh": 2,
            "multi": True, "includeAll": True, "allValue": ".*", "sort": 7,
            "current": {"text": "All", "value": "$__all"}}  # fmt: skip


def text() -> str:
    """The board as Grafana imports it."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    board = {
        "uid": "nodegate-fleet",
        "title": "nodegate: the fleet",
        "tags": ["nodegate"],
        "schemaVersion": 38,
        "editable": True,
        "time": {"from": "now-30d", "to": "now"},
        "templating": {"list": [source, *(_variable(*each) for each in _VARIABLES.items())]},
        "panels": panels(),
    }
    return json.dumps(board, indent=1) + "\n"


if __name__ == "__main__":
    print(text(), end="")
