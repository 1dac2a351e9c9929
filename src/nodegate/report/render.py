"""The files of a run folder, written from one report."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from nodegate.files.atomic import replacing
from nodegate.report import csv_file, json_file, junit, nodes_csv, prometheus
from nodegate.report.stats import measurements

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.report.json_file import LinesOf
    from nodegate.report.model import Report


RESULTS_CSV = "results.csv"


def render(
    report: Report, folder: Path, lines_of: LinesOf = json_file.lines_again, *, everything: bool = False
) -> None:
    """Write report.json, nodes.csv, findings.csv, junit.xml, metrics.prom and report.html, each whole or not at all.

    `lines_of` gives the lines of a node in results.jsonl, where the run has just written them. With `everything`, and
    where it was asked for before, results.csv has every finding and junit.xml every check.

    The page comes last: it shows the sha256 of report.json and of the tables, so that a signed copy can be held
    against the files.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fleet = measurements(report.nodes)
    everything = everything or (folder / RESULTS_CSV).exists()
    with replacing(folder / "report.json") as file:
        fingerprint = json_file.write(report, file, fleet, lines_of)
    tables = {"nodes.csv": nodes_csv.write, "findings.csv": csv_file.write_findings}
    tables |= {RESULTS_CSV: csv_file.write} if everything else {}
    for name, write in {**tables, "metrics.prom": prometheus.write}.items():
        with replacing(folder / name) as file:
            write(report, file)
    with replacing(folder / "junit.xml") as file:
        junit.write(report, file, everything=everything)
    hashes = {"all results": fingerprint}
    hashes.update((name, _sha256(folder / name)) for name in ("report.json", *tables))
    hashes["evidence: manifest.sha256"] = report.run.manifest_sha256 or "this run has no manifest of its evidence"
    from nodegate.report import html  # noqa: PLC0415 - jinja2 is loaded when a page is made, not with every run

    text = html.page(report, hashes, fleet)
    with replacing(folder / "report.html") as file:
        file.write(text)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
