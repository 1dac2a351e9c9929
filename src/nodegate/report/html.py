"""report.html: one file that opens offline, sends nothing, and prints to the copy that is signed."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nodegate.files.paths import REPORTS, suite_folder
from nodegate.inventory.hostlist import fold, natural
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.records.cause import Class, Severity
from nodegate.records.part import Kind
from nodegate.records.run import CheckInfo, NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report import wording
from nodegate.report.cause_rows import CauseRow, cause_rows
from nodegate.report.claim_rows import claim_rows
from nodegate.report.fleet_result import fleet_result
from nodegate.report.json_file import utc
from nodegate.report.model import Report, check_ids, in_order, node_counts
from nodegate.report.not_judged import not_applicable, not_judged, waived
from nodegate.report.page_data import letter, page_data
from nodegate.report.pictures.acceptance import Delivered, against, scatter
from nodegate.report.pictures.acceptance import finding_of as against_said
from nodegate.report.pictures.burn import Burn, curves
from nodegate.report.pictures.burn import finding_of as burn_said
from nodegate.report.pictures.dots import dots, finding
from nodegate.report.pictures.racks import NONE, gpu_bars
from nodegate.report.pictures.rails import heat_maps
from nodegate.report.pictures.values import every_value, values
from nodegate.report.stats import Measurement, measurements
from nodegate.text import number, visible
from nodegate.words.catalogue import LANGUAGES, TAGS, known, phrase, say, speaking, spoken, term, words

_MODES_AT_END = re.compile(r"\s*\(F\d\d(?:,\s*F\d\d)*\)\.?$", re.ASCII)  # they have a column of their own
_RATES = frozenset(("TFLOPS", "GB/s", "Gb/s", "MB/s", "MHz", "W", "°C", "µs", "%"))  # counts are told by findings
# Compiled as text: of the CPU time of a page of 16 nodes 28 %.
_PLAIN = re.compile(r'\{\{ _\("([^"{}]*)"\) \}\}')
_SAID = re.compile(r'say\("([^"]+)"')  # in the page's script
_OF_SCRIPT = ((known("waived"),), (known("no result"),), *((each.value,) for each in Severity))
MOST_ROWS = 500  # of a table that the page is made with; more are counted, and findings.csv has them


def page(
    report: Report,
    hashes: Mapping[str, str],
    fleet: Sequence[Measurement] | None = None,
    packed: frozenset[str] = frozenset(),
    *,
    lang: str = "en",
    burned: Sequence[Burn] = (),
    delivered: Delivered | None = None,
) -> str:
    """The whole page in a language. `hashes` are rows of (name, sha256) that the signed copy shows.

    `packed` are the paths of evidence that is compressed in the folder of the page, `burned` the GPUs
    whose burn is shown, `delivered` what its parts had at the last delivery.
    """
    if lang != "en":  # what the report keeps of causes and numbers is said in English
        report, fleet = replace(report), None
    with speaking(lang):
        folder = suite_folder(REPORTS) / "templates"
        style, script = (Markup((folder / name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))  # noqa: S704 - the suite's own files
        other = next(each for each in LANGUAGES if each != spoken())
        found = measurements(report.nodes) if fleet is None else fleet
        rows, every = cause_rows(report), every_value(report.nodes)
        of_parts, modes = values(every), failure_modes()
        cited = {mode for info in report.checks.values() for mode in info.failure_modes}
        return (
            environment(folder)
            .get_template("report.html.j2")
            .render(
                report=report,
                run=report.run,
                title=wording.title(report.run.profile),
                headline=wording.headline(report),
                sentences=wording.sentences(report),
                verdicts=_by_verdict(report),
                causes=rows,
                claims=claim_rows(report),
                filters=_filters(rows),
                racks=_racks(report),
                gpus=gpu_bars(of_parts[Kind.GPU]),
                no_bars=NONE,
                rails=heat_maps((*of_parts[Kind.NIC], *of_parts[Kind.PORT])),
                burned=[(burn_said(each), curves(each)) for each in burned],
                against=[(each, scatter(each), against_said(each)) for each in against(every, delivered or {})],
                spread=[
                    (entry, dots(entry), finding(entry))
                    for entry in found
                    if entry.unit in _RATES and entry.lowest != entry.highest
                ],
                waived=waived(report),
                gaps=not_judged(report),
                inapplicable=not_applicable(report),
                checks=_checks(report),
                modes={mode: modes[mode].name for mode in sorted(cited) if mode in modes},
                hashes=hashes,
                words=wording,
                language=TAGS[spoken()],
                other=(TAGS[other], words(other), words(other).term(known("English"))),
                data={**page_data(report, rows[:MOST_ROWS], packed), "words": _of_script(script)},
                most=MOST_ROWS,
                style=style,
                script=script,
                content_policy=content_policy(style, script),
                fleet=fleet_result(report),
                policy=report.policy,
            )
        )


class _Pages(FileSystemLoader):
    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        text, file, is_fresh = super().get_source(environment, template)
        return _PLAIN.sub(lambda found: escape(say(found[1])), text), file, is_fresh


def environment(folder: Path) -> Environment:
    """Templates of a folder, with everything escaped and nothing undefined passed over."""
    environment = Environment(
        autoescape=True,
        loader=_Pages(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    filters = {"fold": fold, "clock": _clock, "value": number, "count": wording.count, "duration": wording.duration}
    environment.filters.update(filters)
    environment.globals.update(_=say, term=term, phrase=phrase)
    return environment


def _of_script(script: str) -> dict[str, str]:
    """What the page's script says, in the language of the page; of English nothing."""
    if spoken() == "en":
        return {}
    rows = (*wording.CHECK_WORDS, *wording.NODE_WORDS, *wording.CLAIM_WORDS, *_OF_SCRIPT)
    return {text: term(text) for text in (*_SAID.findall(script), *(word for word, *_ in rows))}


def _shown(value: object) -> object:
    """What every expression of the template goes through before it is escaped: no hidden characters."""
    return visible(value, most=20_000) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(epoch_s: float) -> str:
    return utc(epoch_s).replace("T", " ").removesuffix("Z")


def content_policy(style: str, script: str) -> str:
    """A content security policy under which nothing runs or loads but these two texts."""
    return (
        f"default-src 'none'; style-src {_sha256(style)}; script-src {_sha256(script)};"
        " base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _by_verdict(report: Report) -> list[tuple[NodeVerdict, int, tuple[str, ...]]]:
    """Each node verdict in the glossary's order, its count and nodes; the rare ones only where they occur."""
    counts = node_counts(report)
    return [
        (verdict, counts[verdict], tuple(node.node for node in report.nodes if node.verdict is verdict))
        for verdict in map(NodeVerdict, wording.NODE_LETTER)
        if counts[verdict] or verdict not in (NodeVerdict.WAIVED, NodeVerdict.GAPS, NodeVerdict.NOT_JUDGED)
    ]


def _filters(rows: Sequence[CauseRow]) -> Mapping[str, Sequence[str]]:
    """What the causes can be filtered by: the severities and classes that occur, in their order, and the racks."""
    severities, sorts = {row.severity for row in rows}, {row.sort for row in rows}
    return {
        "severity": [each.value for each in Severity if each.value in severities],
        "class": [each.value for each in Class if each.value in sorts],
        "rack": in_order(rack for row in rows for rack in row.racks),
    }


def _racks(report: Report) -> list[tuple[str, list[NodeReport]]]:
    """The nodes by rack in the order of their names; empty where the inventory names no racks."""
    racks: dict[str, list[NodeReport]] = {}
    for node in sorted(report.nodes, key=lambda node: (natural(node.rack), natural(node.node))):
        racks.setdefault(node.rack, []).append(node)
    return list(racks.items()) if any(racks) else []


def _checks(report: Report) -> list[tuple[str, str, tuple[str, ...], dict[str, int]]]:
    """Each check with its sentence, failure modes, and its results counted by letter."""
    counts: dict[str, dict[str, int]] = {check: {} for check in check_ids(report)}
    for node in report.nodes:
        for record in node.records:
            found = counts[record.check]
            found[letter(record)] = found.get(letter(record), 0) + 1
    rows = []
    for check, found in counts.items():
        info = report.checks.get(check, CheckInfo(""))
        rows.append((check, _MODES_AT_END.sub("", info.title), info.failure_modes, found))
    return rows
