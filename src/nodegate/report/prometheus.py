"""metrics.prom, for node_exporter's textfile collector."""

from collections import Counter
from typing import IO

from nodegate.report.model import Report, gpu_counts, node_counts
from nodegate.text import visible


def write(report: Report, file: IO[str]) -> None:
    """Write the verdict of each node, its checks counted by verdict, and when and by what it was judged."""
    run = report.run
    _head(file, "nodegate_node_verdict", "The verdict of the node in the latest run: 1.")
    for node in report.nodes:
        file.write(f"nodegate_node_verdict{_labels(node=node.node, verdict=node.verdict.value)} 1\n")
    _head(file, "nodegate_check_verdict", "Number of checks of the node by verdict; a waived failure counts as waived.")
    for node in report.nodes:
        counts = Counter("waived" if record.waiver else record.verdict.value for record in node.records)
        for verdict, count in sorted(counts.items()):
            file.write(f"nodegate_check_verdict{_labels(node=node.node, verdict=verdict)} {count}\n")
    _causes(report, file)
    accepted, total = gpu_counts(report)
    _head(file, "nodegate_gpus", "Number of GPUs in nodes that were judged, by whether their node is accepted.")
    file.write(f"nodegate_gpus{_labels(accepted='yes')} {accepted}\n")
    file.write(f"nodegate_gpus{_labels(accepted='no')} {total - accepted}\n")
    _head(file, "nodegate_nodes", "Number of nodes by verdict.")
    for verdict, count in node_counts(report).items():
        file.write(f"nodegate_nodes{_labels(verdict=verdict.value)} {count}\n")
    _head(file, "nodegate_run_timestamp_seconds", "When the run finished, in seconds since the epoch.")
    file.write(f"nodegate_run_timestamp_seconds {run.finished_epoch_s:.3f}\n")
    _head(file, "nodegate_run_duration_seconds", "How long the run took, in seconds.")
    file.write(f"nodegate_run_duration_seconds {max(0.0, run.finished_epoch_s - run.started_epoch_s):.3f}\n")
    _head(file, "nodegate_run_interrupted", "1 when the run was interrupted, else 0.")
    file.write(f"nodegate_run_interrupted {int(run.interrupted)}\n")
    _head(file, "nodegate_run_info", "The run and the version of the suite: 1.")
    file.write(f"nodegate_run_info{_labels(run=run.id, profile=run.profile, version=run.suite_version)} 1\n")


def _causes(report: Report, file: IO[str]) -> None:
    """One series a cause and node; several parts of a node with one cause are one series, named by the first."""
    _head(file, "nodegate_cause", "A cause that affects a node: 1.")
    for node, causes in report.node_causes.items():
        lines = dict.fromkeys(
            _labels(
                node=node,
                part=cause.part.short,
                serial=(cause.part.of or cause.part).serial,
                condition=cause.condition,
                severity=cause.severity.value,
                **{"class": cause.sort.value},
                waived="yes" if cause.waiver else "no",
            )
            for cause in causes
        )
        file.writelines(f"nodegate_cause{labels} 1\n" for labels in lines)


def _head(file: IO[str], name: str, text: str) -> None:
    file.write(f"# HELP {name} {text}\n# TYPE {name} gauge\n")


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return visible(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
