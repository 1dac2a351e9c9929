"""The files of a run folder, written from one report, or once more from report.json.

Then a node whose evidence was changed is accepted no more.
"""

import errno
import hashlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import replacing, replacing_bytes
from nodegate.files.bounded import open_regular
from nodegate.files.gz import ENDING
from nodegate.records.finding import Finding, Record
from nodegate.records.manifest import MANIFEST, Manifest, OddFile
from nodegate.records.part import NODE
from nodegate.records.results import RESULTS, fingerprint, write_all
from nodegate.records.run import NodeReport
from nodegate.records.run_folder import EVIDENCE, RunFolder
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict
from nodegate.report import csv_file, json_file, junit, prometheus
from nodegate.report.json_file import load
from nodegate.report.model import Report
from nodegate.report.redact import redact
from nodegate.report.stats import Measurement, measurements

RESULTS_CSV = "results.csv"
CHECK = "node.evidence"
_STEP = "put the evidence back as it was, or measure this node again: pytest --resume"


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
    from nodegate.report.pictures import acceptance  # noqa: PLC0415
    from nodegate.report.pictures.burn import burns  # noqa: PLC0415 - so are the measurements

    burned, delivered = burns(report, RunFolder(folder)), acceptance.kept(folder)
    packed = _packed(report, folder)
    for place, lang in enumerate(report.run.contract.languages or ("en",)):
        text = html.page(report, hashes, fleet, packed, lang=lang, burned=burned, delivered=delivered)
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


def rerender(
    run: Path, *, redacted: bool = False, to: Path | None = None, everything: bool = False, lang: str = ""
) -> tuple[Path, Report, list[Measurement]]:
    """Write the reports into `to`; by default the run's own folder, or one beside it for the redacted ones.

    `everything`: results.csv with every finding and junit.xml with every check, too. `lang`: not as in the run.
    Returns the folder, the report that was written, and what its fleet measured.

    Raises:
        UsageError: there is no good report.json, the reports cannot be written, or a redacted one would take the place
            of its original.
    """
    loaded = load(run)
    if lang:
        contract = replace(loaded.run.contract, languages=(lang,))
        loaded = replace(loaded, run=replace(loaded.run, contract=contract))
    report = _held_against(loaded, Manifest(run), run)
    home = run.resolve()
    folder = to or (home.with_name(f"{home.name}-redacted") if redacted else run)
    if redacted and folder.resolve() == home:
        raise UsageError("the redacted report would replace the original", file=str(folder), hint="name another folder")
    # the results of an earlier release are written once more in the form of today
    is_as_it_was = all(now is then for now, then in zip(report.nodes, loaded.nodes, strict=True))
    has_results = folder.resolve() == home and is_as_it_was and (run / RESULTS).exists()
    shown = redact(report) if redacted else report
    try:
        fleet = render(shown, folder, has_results=has_results, everything=everything)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(folder)) from broken
    return folder, shown, fleet


def _held_against(report: Report, manifest: Manifest, run: Path) -> Report:
    """The report, with an error on each node whose evidence is not as the run wrote it.

    A copy of a report without evidence is left as it is, and says so by its fingerprint alone.

    Raises:
        UsageError: the manifest is not that of this report, or is gone while the evidence is there.
    """
    made_from, there = report.run.manifest_sha256, manifest.sha256
    if made_from == there:
        odd: defaultdict[str, list[OddFile]] = defaultdict(list)
        for each in manifest.odd_files():
            odd[each.node].append(each)
        return replace(report, nodes=tuple(_with_odd(node, odd[node.node]) for node in report.nodes))
    if not there and not (run / "evidence").exists():
        return report
    hint = f"judge the evidence as it is: pytest --replay {run}"
    said = "does not belong to this report.json" if there else "is gone"
    raise UsageError(said, file=str(run / MANIFEST), hint=hint)


def _with_odd(node: NodeReport, odd: list[OddFile]) -> NodeReport:
    if not odd:
        return node
    findings = tuple(Finding(NODE, Verdict.ERROR, text=str(each), action=_STEP, code="evidence") for each in odd)
    files = tuple(each.file for each in odd)
    record = Record(node.node, CHECK, Verdict.ERROR, findings, evidence=files)
    verdict = min(NodeVerdict.INCOMPLETE, node.verdict, key=NODE_ORDER.index)
    return replace(node, verdict=verdict, records=(*(each for each in node.records if each.check != CHECK), record))
