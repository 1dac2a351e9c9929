"""The files of a run folder, written from one report."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from nodegate.report import csv_file, html, json_file, junit, prometheus
from nodegate.report.atomic import replacing
from nodegate.report.stats import measurements

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.report.model import Report


def render(report: Report, folder: Path) -> None:
    """Write report.json, results.csv, junit.xml, metrics.prom and report.html, each whole or not at all.

    The page comes last: it shows the sha256 of report.json and of results.csv, so that a signed copy can be held
    against the files.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fleet = measurements(report.nodes)
    fingerprint = json_file.results_sha256(report)
    with replacing(folder / "report.json") as file:
        json_file.write(report, file, fingerprint=fingerprint, fleet=fleet)
    for name, write in (("results.csv", csv_file.write), ("junit.xml", junit.write), ("metrics.prom", prometheus.write)):
        with replacing(folder / name) as file:
            write(report, file)
    hashes = {"all results": fingerprint}
    hashes.update((name, _sha256(folder / name)) for name in ("report.json", "results.csv"))
    text = html.page(report, hashes, fleet)
    with replacing(folder / "report.html") as file:
        file.write(text)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
