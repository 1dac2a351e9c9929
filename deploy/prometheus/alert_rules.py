"""Writes Prometheus alert rules over the metrics of jobs, or over metrics.prom (`--fleet`).

    python deploy/prometheus/alert_rules.py [--job-label LABEL] >nodegate-job.rules.yml
    python deploy/prometheus/alert_rules.py --fleet >nodegate-fleet.rules.yml

The first are written from the tables of `nodegate job` (metrics, limits, words) and alerts.csv. LABEL is the one that
tells jobs apart on the series of GPUs: hpc_job, exported_pod or pod (of pods the name without its number counts).
Without one all GPUs of the server are taken as one job. In alerts.csv {expression} is a quantity of metrics.csv, by
job, node and GPU; <name> is a limit of limits.csv; words in capitals are rows of the table. The others are the rows of
fleet_alerts.csv: {label} in a sentence is a label of the series.
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

import yaml

from nodegate.job.queries import RATE_S, Metric, table
from nodegate.job.tables import row

_HERE = Path(__file__).parent
_GPUS = ("dcgm-exporter", "nvidia_gpu_exporter")
_LABELS = "nodegate_job, instance, UUID, uuid, GPU_I_ID, gpu, modelName"
_NOT_EXPORTERS = {"pod": ',container!~".*exporter.*"'}
_SUFFIX = "(.+?)(-(worker|master|launcher|[0-9]+))*"  # of a pod: the rest is the job's name
_JOB = "{{ with $labels.nodegate_job }}job {{ . }} {{ end }}"
_WHERE = _JOB + "{{ $labels.instance }}{{ with $labels.gpu }} GPU {{ . }}{{ end }}"
_QUANTITY = re.compile(r"\b[a-z_]+\b(?=\[| offset|$)")


def rules(label: str = "") -> list[dict[str, object]]:
    """The alert rules: one for each row of alerts.csv and exporter that has all of its quantities."""
    rows, found = _rows("alerts.csv"), []
    for each in rows:
        for exporter in [each["exporter"]] if each["exporter"] else _GPUS:
            if each["for"]:
                macros = {of["name"]: of["expr"] for of in rows if not of["for"] and of["exporter"] in ("", exporter)}
                found.append(_rule(each, exporter, _expanded(each["expr"], macros), label))
    return found


def fleet_rules() -> list[dict[str, object]]:
    """The alert rules over metrics.prom: one for each row of fleet_alerts.csv."""
    return [
        {
            "alert": f"Nodegate{each['name']}",
            "expr": each["expr"],
            **({"for": each["for"]} if each["for"] else {}),
            "labels": {"severity": each["severity"]},
            "annotations": {key: re.sub(r"\{(\w+)\}", r"{{ $labels.\1 }}", each[key]) for key in ("summary", "action")},
        }
        for each in _rows("fleet_alerts.csv")
    ]


def _rows(table: str) -> list[dict[str, str]]:
    with (_HERE / table).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _rule(each: dict[str, str], exporter: str, expression: str, label: str) -> dict[str, object]:
    said = row("texts.csv", each["name"])
    expression = re.sub(r"<(\w+)>", lambda of: row("limits.csv", of[1])["value"], expression)
    expression = re.sub(r"\{([^{}]+)\}", lambda of: _series(of[1], exporter, label), expression)
    return {
        "alert": "Nodegate" + each["name"].title().replace("-", ""),
        "expr": expression,
        "for": each["for"],
        "labels": {"severity": "warning", "nodegate_class": each["name"], "exporter": exporter},
        "annotations": {"summary": f"{said['en']} ({_WHERE})", "action": said["do"].replace("{node}", "the node")},
    }


def _expanded(expression: str, macros: dict[str, str]) -> str:
    for _ in macros:
        expression = re.sub(r"\b[A-Z]{3,}\b", lambda of: macros.get(of[0], of[0]), expression)
    return expression


def _series(text: str, exporter: str, label: str) -> str:
    """A quantity as a vector whose labels are job, node and GPU alone: copies count once, and all vectors match."""
    quantity = next(of[0] for of in _QUANTITY.finditer(text) if of[0] != "offset")
    metric = next(each for each in table() if (each.quantity, each.exporter) == (quantity, exporter))
    selector = f'{{{label}!=""{_NOT_EXPORTERS.get(label, "")}}}' if label and exporter in _GPUS else ""
    if metric.factor == "rate":
        offset = text.removeprefix(quantity)
        return f"sum by (instance) (rate({metric.metric}{selector}[{RATE_S}s]{offset}))"
    found = re.sub(rf"\b{quantity}\b", metric.metric + selector, text, count=1)
    found = _in_unit(found, metric)
    if exporter not in _GPUS:
        return f"max by (instance) ({found})"
    suffix = _SUFFIX if label.endswith("pod") else "(.+)"
    named = f'label_replace({found}, "nodegate_job", "$1", "{label}", "{suffix}")' if label else found
    return f"max by ({_LABELS}) ({named})"


def _in_unit(expression: str, metric: Metric) -> str:
    return expression if metric.factor == "1" else f"{metric.factor} * {expression}"


def text(label: str = "") -> str:
    """The file of rules."""
    return _written({"name": "nodegate-job", "interval": "30s", "rules": rules(label)}, "the tables of nodegate job")


def fleet_text() -> str:
    """The file of rules over metrics.prom."""
    return _written({"name": "nodegate-fleet", "rules": fleet_rules()}, "fleet_alerts.csv")


def _written(group: dict[str, object], source: str) -> str:
    head = f"# Written by deploy/prometheus/alert_rules.py from {source}: change those.\n"
    return head + yaml.safe_dump({"groups": [group]}, sort_keys=False, width=100)


def main() -> None:
    """Print the file."""
    parser = argparse.ArgumentParser(description="alert rules of nodegate job, or of metrics.prom")
    parser.add_argument("--fleet", action="store_true", help="over metrics.prom")
    parser.add_argument("--job-label", default="", choices=["", "hpc_job", "exported_pod", "pod"])
    asked = parser.parse_args()
    print(fleet_text() if asked.fleet else text(asked.job_label), end="")


if __name__ == "__main__":
    main()
