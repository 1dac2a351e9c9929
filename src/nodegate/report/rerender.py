"""The reports of a run, written once more from report.json; a node whose evidence was changed is accepted no more."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.records.finding import Finding, Record
from nodegate.records.manifest import MANIFEST, Manifest, OddFile
from nodegate.records.part import NODE
from nodegate.records.results import RESULTS
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NODE_ORDER, NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.report.reader import load
from nodegate.report.redact import redact
from nodegate.report.render import render
from nodegate.report.stats import Measurement

CHECK = "node.evidence"
_STEP = "put the evidence back as it was, or measure this node again: pytest --resume"


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
