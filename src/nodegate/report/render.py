"""The files of a run folder, written from one report."""

import errno
import hashlib
from pathlib import Path

from nodegate.files.atomic import replacing, replacing_bytes
from nodegate.files.bounded import open_regular
from nodegate.files.gz import ENDING
from nodegate.records.results import RESULTS, fingerprint, write_all
from nodegate.records.run_folder import EVIDENCE, RunFolder
from nodegate.report import csv_file, json_file, junit, prometheus
from nodegate.report.model import Report
from nodegate.report.stats import Measurement, measurements

RESULTS_CSV = "results.csv"


def render(
    report: Report,
    folder: Path,
    *,
    has_results: bool = False,
    everything: bool = False,
    beside: prometheus.Beside | None = None,
) -> list[Measurement]:
    """Write the files of a run folder, each whole or not at all; returns what the fleet measured.

    `has_results`: the folder has them in its results.jsonl.gz already. With `everything`, and where it was asked for
    before, results.csv has every finding and junit.xml every check. `beside` is what metrics.prom has besides.

    The page comes last: it shows the sha256 of the other files, so that a signed copy can be held against them.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fleet = measurements(report.nodes)
    everything = everything or (folder / RESULTS_CSV).exists()
    if not has_results:
        write_all((node.records for node in report.nodes), folder)
    sha256, lines = results = fingerprint(folder)
    if lines != sum(len(node.records) for node in report.nodes):
        raise OSError(errno.EIO, "it was truncated during the run", str(folder / RESULTS))
    with replacing_bytes(folder / "report.json") as raw:
        json_file.write(report, raw, results, fleet)
    tables = {"nodes.csv": csv_file.write_nodes, "findings.csv": csv_file.write_findings}
    if everything:
        tables[RESULTS_CSV] = csv_file.write
    for name, write in tables.items():
        with replacing(folder / name) as file:
            write(report, file)
    with replacing(folder / "metrics.prom") as file:
        prometheus.write(report, file, beside or prometheus.Beside())
    with replacing(folder / "junit.xml") as file:
        junit.write(report, file, everything=everything)
    hashes = {"all results": sha256}
    hashes.update((name, _sha256(folder / name)) for name in ("report.json", *tables))
    hashes["evidence: manifest.sha256"] = report.run.manifest_sha256 or "this run has no manifest of its evidence"
    from nodegate.report import html  # noqa: PLC0415 - jinja2 is loaded when a page is made, not with every run
    from nodegate.report.pictures.burn import burns  # noqa: PLC0415 - so are the measurements

    burned = burns(report, RunFolder(folder))
    packed = _packed(report, folder)
    for place, lang in enumerate(report.run.contract.languages or ("en",)):
        text = html.page(report, hashes, fleet, packed, lang=lang, burned=burned)
        with replacing(folder / (f"report.{lang}.html" if place else "report.html")) as file:
            file.write(text)
    return fleet


def _packed(report: Report, folder: Path) -> frozenset[str]:
    """The paths of the evidence that is there in its compressed form alone."""
    files = (file for node in report.nodes for file in (folder / EVIDENCE / node.node).glob(f"*.json{ENDING}"))
    plain = (file.with_suffix("") for file in files)
    return frozenset(file.relative_to(folder).as_posix() for file in plain if not file.exists())


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
