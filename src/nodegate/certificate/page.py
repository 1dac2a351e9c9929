"""The certificate of a run as one HTML file a language: it opens offline, and each printed page names its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from markupsafe import Markup

from nodegate.certificate import texts
from nodegate.certificate.delivery import delivery, in_no_order
from nodegate.certificate.register import numbered, plain, register
from nodegate.certificate.rounds import Rounds, in_two_nodes, keep, kept, round_of, standings
from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.files.atomic import replacing
from nodegate.files.paths import REPORTS, suite_folder
from nodegate.metric_names import METRICS, words
from nodegate.profile import Profile
from nodegate.records.cause import NOT_JUDGED
from nodegate.records.claim import Claim
from nodegate.records.finding import AT_LEAST, AT_MOST
from nodegate.records.run import Criterion
from nodegate.records.verdict import GOOD
from nodegate.release import suite_version
from nodegate.report.cause_rows import cause_rows
from nodegate.report.claim_rows import ClaimRow, claim_rows
from nodegate.report.fleet_result import FleetVerdict, fleet_result, part_of
from nodegate.report.html import content_policy, environment
from nodegate.report.json_file import utc
from nodegate.report.model import Report, gpu_counts
from nodegate.report.not_judged import waived
from nodegate.report.stats import Applied, Measurement
from nodegate.text import number, with_unit
from nodegate.words.catalogue import TAGS, known, say, speaking, term

FILES = {"en": "certificate.html", "zh": "certificate.zh.html"}
_DIRECTIONS = {AT_LEAST: known("at least {value}"), AT_MOST: known("at most {value}")}
MOST_CAUSES = 200
MOST_CHANGES = 2000
MOST_LIMITS = 3  # of one quantity; of more the first and the last


@dataclass(frozen=True)
class Trait:
    """A version or model on one platform: its values, each with how many nodes have it."""

    platform: str
    name: str
    values: tuple[tuple[str, int], ...]
    of: int


def write(report: Report, folder: Path, fleet: Sequence[Measurement], rounds: Rounds) -> None:
    """Write the certificate in each language; only a delivery has one.

    Raises:
        OSError: the folder cannot be written.
    """
    if report.run.profile != Profile.DELIVERY.value:
        return
    for lang, name in FILES.items():
        with replacing(folder / name) as file:
            file.write(page(report, fleet, rounds, lang))


def again(report: Report, folder: Path, fleet: Sequence[Measurement], rounds_of: Path) -> None:
    """Write the certificate of a run folder once more, with the rounds that are kept beside a run.

    Raises:
        UsageError: the rounds cannot be read, or the folder cannot be written.
    """
    before = kept(rounds_of)
    try:
        keep(folder, before)
        write(report, folder, fleet, before)
    except OSError as broken:
        raise UsageError(f"cannot be written: {broken.strerror}", file=str(folder)) from broken


def page(report: Report, fleet: Sequence[Measurement], rounds: Rounds, lang: str) -> str:
    """The certificate in one language. `rounds` are those before this run."""
    with speaking(lang):  # what the report keeps of causes is said in English
        return _page(replace(report) if lang != "en" else report, fleet, rounds, lang)


def _page(report: Report, fleet: Sequence[Measurement], rounds: Rounds, lang: str) -> str:
    folder = suite_folder(REPORTS) / "templates"
    style = Markup((folder / "certificate.css").read_text(encoding="utf-8") + _style(report))  # noqa: S704 - ours
    every = (*rounds.rounds, round_of(report))
    accepted, gpus = gpu_counts(report)
    return (
        environment(folder)
        .get_template("certificate.html.j2")
        .render(
            report=report,
            run=report.run,
            lang=TAGS[lang],
            generator=generator(report),
            style=style,
            content_policy=content_policy(style, ""),
            part=part_of(report),
            head=[(term(label), getattr(report.run.contract, block).get(key, "")) for block, key, label in texts.HEAD],
            parties=[(term(label), report.run.contract.parties.get(key)) for key, label in texts.PARTIES.items()],
            delivery=_delivered(report),
            criteria=criteria(report, fleet),
            limits=_limits,
            unit=with_unit,
            traits=list(_traits(report)),
            result=fleet_result(report),
            waived=waived(report),
            causes=[row for row in cause_rows(report) if row.sort != NOT_JUDGED][:MOST_CAUSES],
            rounds=every,
            lost=rounds.notes,
            changed=[each for each in standings(every) if each.out or each.was or (each.first > 1)][:MOST_CHANGES],
            no_order=in_no_order(report),
            in_two=in_two_nodes(every),
            register=numbered(register(every)),
            conclusion=[
                say(
                    "{n} of {m} nodes accepted",
                    n=sum(node.verdict in GOOD for node in report.nodes),
                    m=len(report.nodes),
                ),
                *([say("{n} of {m} GPUs accepted", n=accepted, m=gpus)] if gpus else []),
            ],
            plain=plain,
            good=GOOD,
            result_word=result_word(report),
            owners=_owners(report),
            out_of=lambda at: say("out since round {n}", n=at),
            in_of=lambda at: say("in since round {n}", n=at),
        )
    )


def generator(report: Report) -> str:
    """What a certificate of this run that this release writes has as its generator."""
    return f"nodegate {report.run.suite_version} (certificate of {suite_version()})"


def result_word(report: Report) -> str:
    """The result in a word: the fleet's, and of a run of a part that it accepts nothing."""
    if part_of(report):
        return texts.NO_ACCEPTANCE
    result = fleet_result(report)
    return result.verdict.value if result else FleetVerdict.UNDECIDED.value


def _owners(report: Report) -> dict[str, str]:
    """Who signed for what is not proven, by claim."""
    signed: dict[str, dict[str, None]] = {}
    for node in report.nodes:
        for shown in node.claims:
            if shown.signed:
                signed.setdefault(shown.claim, {})[shown.signed] = None
    return {claim: "; ".join(each) for claim, each in signed.items()}


def boxes(report: Report) -> tuple[str, str]:
    """The line at the end of each printed page: run, start and manifest; and its number of how many, both NUL."""
    run = report.run
    return f"{run.id}  {utc(run.started_epoch_s)}  SHA-256 {run.manifest_sha256[:16] or '-'}", say(
        "page {n} of {m}", n="\0", m="\0"
    )


def _style(report: Report) -> str:
    left, number_of = boxes(report)
    before, between, after = (_css(each) for each in number_of.split("\0"))
    right = f"{before} counter(page) {between} counter(pages) {after}"
    return f"@page {{ @bottom-left {{ content: {_css(left)}; }} @bottom-right {{ content: {right}; }} }}\n"


def _css(text: str) -> str:
    """A string of CSS: everything but letters, digits and a few signs by its number."""
    return '"' + "".join(c if c.isascii() and (c.isalnum() or c in " .:_-") else f"\\{ord(c):x} " for c in text) + '"'


def _delivered(report: Report) -> SimpleNamespace:
    (lines, without_order), rows = delivery(report), []
    for line in lines:
        told = [
            f"{number(value)} / {of}" if line.wanted else with_unit(value, line.unit)
            for value, of in ((line.delivered, line.of), (line.accepted, line.of_accepted))
        ]
        ordered = (line.wanted or with_unit(line.ordered, line.unit)) if line.has_order else "–"  # noqa: RUF001 - nothing
        rows.append((term(line.quantity), ordered, *told, line.state, sorted(line.wrong), sorted(line.unknown)))
    return SimpleNamespace(lines=rows, without_order=without_order)


def _limits(figures: Figures) -> list[tuple[str, str]]:
    """The limits as applied, each with what it rests on; of many the first and the last."""
    rows: dict[tuple[str, str], None] = {}  # two that are printed alike are one
    for each in figures.limits:
        value = with_unit(each.value, figures.unit)
        text = say(_DIRECTIONS[each.direction], value=value) if each.direction else value
        rows[text, term(texts.KINDS[each.kind.value])] = None
    found = list(rows)
    return found if len(found) <= MOST_LIMITS else [found[0], found[-1]]


def _traits(report: Report) -> Iterator[Trait]:
    """Firmware, driver and libraries by platform, as the nodes that answered have them."""
    by_platform: dict[str, list[Mapping[str, str]]] = {}
    for node in report.nodes:
        if node.identity:
            by_platform.setdefault(node.platform, []).append(dict(node.identity))
    for platform, nodes in sorted(by_platform.items()):
        names = dict.fromkeys(name for node in nodes for name in node)
        for name in names:
            kind, bracket, model = name.partition(" (")
            if kind in texts.TRAITS:
                values = Counter(node[name] for node in nodes if name in node)
                yield Trait(
                    platform,
                    term(kind) + bracket + model,
                    tuple(sorted(values.items(), key=lambda each: (-each[1], each[0]))),
                    len(nodes),
                )


@dataclass(frozen=True)
class Figures:
    """One quantity on one platform: `of` values, of which `passed` kept every limit that was applied to them.

    `worst` and `median` are over all nodes, `accepted` is the worst of accepted nodes, None where there is none.
    """

    platform: str
    quantity: str
    metric: str
    unit: str
    limits: tuple[Applied, ...]
    worst: float
    worst_at: str
    median: float
    accepted: float | None
    passed: int
    of: int

    @property
    def is_floor(self) -> bool:
        """Whether nothing but a broken part is below its limits: they prove nothing."""
        return bool(self.limits) and not any(each.kind.proves for each in self.limits)


@dataclass(frozen=True)
class CriterionRow:
    """One claim: who asks for it, on how many nodes it is proven, refuted and open, and its numbers."""

    row: ClaimRow
    asked: Criterion
    sort: str
    clause: str
    figures: tuple[Figures, ...]

    @property
    def open(self) -> int:
        """On how many nodes it is not proven."""
        return sum(len(gap.nodes) for gap in self.row.gaps)

    @property
    def nodes(self) -> int:
        """On how many nodes it was made."""
        return len(self.row.proven) + len(self.row.refuted) + self.open


def criteria(report: Report, fleet: Sequence[Measurement]) -> list[CriterionRow]:
    """Every claim of the run, in the order of the table."""
    known = {claim.name: claim for claim in claims()}
    found = []
    for row in claim_rows(report):
        item = report.policy.item(row.claim) if report.policy else None
        asked = report.run.contract.criteria.get(row.claim, Criterion())
        figures = tuple(_figures(known[row.claim], fleet)) if row.claim in known else ()
        sort = item.defect_class.value if item else ""
        clause = item.clause if item and report.policy and report.policy.items else ""  # the default policy agrees none
        found.append(CriterionRow(row, asked, sort, asked.clause or clause, figures))
    return found


def _figures(claim: Claim, fleet: Sequence[Measurement]) -> Iterator[Figures]:
    """What its checks measured: of those that prove by numbers everything, of the others what has a metric."""
    asked = (*claim.numbers, *claim.amounts)
    for each in fleet:
        is_metric = each.metric in METRICS
        if each.check in asked or (is_metric and each.check in claim.proving):
            is_most = any(limit.direction == AT_MOST for limit in each.limits)
            worst, where = (each.highest, each.highest_at) if is_most else (each.lowest, each.lowest_at)
            accepted = each.accepted[-1 if is_most else 0] if each.accepted else None
            quantity = words(each.metric) if is_metric else each.quantity
            about = (each.platform, quantity, each.metric, each.unit, each.limits)
            yield Figures(*about, worst, where, each.median, accepted, each.passed, len(each.values))
