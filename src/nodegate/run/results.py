"""The records of a run as they come in, and the reports at its end."""

from __future__ import annotations

import errno
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate import suite
from nodegate.errors import UsageError
from nodegate.inventory.hostlist import fold
from nodegate.past.event import HOOK_DROPPED, HOOK_UNREAD
from nodegate.past.record import FleetRecord
from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.results import RESULTS, ResultsFile, write_all
from nodegate.records.run import CheckInfo, NodeReport, Run
from nodegate.records.run_folder import RunFolder
from nodegate.records.taken_key import notes
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.model import Report, by_check
from nodegate.report.prometheus import Beside
from nodegate.report.render import render
from nodegate.report.stats import Measurement
from nodegate.run import conditions, slurm_events
from nodegate.run.contexts import NodeSummary
from nodegate.run.decision import decide
from nodegate.run.for_the_record import kept_run
from nodegate.run.judging import Judging
from nodegate.run.notes import fleet_allows, stale_demands, unseen
from nodegate.run.pack_evidence import pack_evidence
from nodegate.run.packed_findings import PackedRecords
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.job.answer import Answer  # numpy

JUDGED = frozenset((Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.ERROR))
ACCEPTING = frozenset((*GOOD, NodeVerdict.NOT_JUDGED))


class Results:
    """Keeps the records of each node on disk when it has all of them, and in memory for the report."""

    def __init__(
        self,
        folder: RunFolder,
        run: Run,
        conclude: Callable[[Report], str] | None = None,
        *,
        asked: Mapping[str, Sequence[str]],
        resumed: bool = False,
    ) -> None:
        """`conclude` gives the answer of profile troubleshoot, `asked` has the checks of each node, now or later.

        A `resumed` run judges all again; what was judged before stays readable until then.

        Raises:
            UsageError: nothing can be written.
        """
        self._asked, self._waiting, self._resumed = asked, defaultdict[str, list[Record]](list), resumed
        self.folder, self.run, self._conclude = folder, run, conclude
        self.records = PackedRecords()
        self.report: Report | None = None
        self.everything = False  # whether results.csv is asked for, and every check in junit.xml
        self.metrics: Answer | None = None  # what a Prometheus says of the nodes (--metrics)
        self.notes: list[str] = []  # what the user should know in addition to the verdicts
        self._path = folder.path / RESULTS
        try:
            self._file = ResultsFile(folder.path, resumed=resumed)
        except OSError as broken:
            raise UsageError(f"cannot be written: {broken.strerror}", file=str(self._path)) from broken

    def keep(self, record: Record) -> None:
        """Add a record.

        Raises:
            OSError: it cannot be written.
        """
        self.records.append(record)
        waiting = self._waiting[record.node]
        waiting.append(record)
        if len(waiting) >= len(self._asked.get(record.node, ())):
            self._file.write(self._waiting.pop(record.node))

    def keep_unreported(self, records: Iterable[Record]) -> None:
        """Add the records that are not there yet: a run that ends early forgets no failure that was found.

        Raises:
            OSError: they cannot be written.
        """
        known = {(record.node, record.check) for record in self.records}
        for record in records:
            if (record.node, record.check) not in known:
                self.keep(record)

    @property
    def judged(self) -> bool:
        """Whether anything was judged at all: a run of skips alone is not a success."""
        return any(record.verdict in JUDGED for record in self.records)

    def finish(self, judging: Judging, checks: Mapping[str, CheckInfo], *, interrupted: bool) -> None:
        """Close the records and write the reports. `checks` are those that only other processes know.

        Raises:
            OSError: they cannot be written.
        """
        for records in self._waiting.values():
            self._file.write(records)
        if not self._path.exists():
            raise FileNotFoundError(errno.ENOENT, "the run folder is gone", str(self.folder.path))
        missing = sum(map(len, judging.register.asked.values())) - len(self.records)
        self.run = replace(
            self.run,
            finished_epoch_s=time.time(),
            interrupted=interrupted or missing > 0,
            notes=tuple(_notes(judging)),
            judging_s={node: round(took, 3) for node, took in sorted(judging.judging_s.items())},
        )
        report = build(self.run, judging, self.records, checks)
        if self.metrics is not None:
            report = self._with_metrics(report, self.metrics, judging)
        self._file.close()
        if self._resumed:
            whole = ((replace(each, findings=tuple(each.findings)) for each in node.records) for node in report.nodes)
            write_all(whole, self.folder.path)  # not with their findings in compact form
        if not self.run.interrupted:
            pack_evidence(self.folder, report.nodes)
        self.run = replace(self.run, manifest_sha256=self.folder.manifest.sha256)
        self.report = self._concluded(replace(report, run=self.run))
        conditions.end(self.folder, self.report.run)
        from nodegate.report.pictures import acceptance  # noqa: PLC0415 - markupsafe

        acceptance.keep(self.folder.path, judging.view.delivered(acceptance.METRICS, self.run.started_epoch_s))
        beside = _beside(self.report, judging)
        fleet = render(self.report, self.folder.path, has_results=True, everything=self.everything, beside=beside)
        if self.report.run.profile == Profile.DELIVERY.value:
            self._certify(self.report, fleet, judging.past)
        if judging.past and judging.past.keeps:
            self._remember(self.report, judging, judging.past)

    def _certify(self, report: Report, fleet: Sequence[Measurement], past: FleetRecord | None) -> None:
        """Write the certificate, with the rounds that the fleet's record has of its contract and lot."""
        from nodegate.certificate import page, rounds  # noqa: PLC0415 - a night has none

        before = rounds.Rounds()
        try:
            before = rounds.earlier(past.file, report.run) if past else before
        except UsageError as said:
            before = rounds.Rounds(notes=(str(said),))
        rounds.keep(self.folder.path, before)
        page.write(report, self.folder.path, fleet, before)

    def _remember(self, report: Report, judging: Judging, past: FleetRecord) -> None:
        """Write the run into the fleet's record, with what Slurm did since the last one; no verdict rests on it."""
        of_slurm, why = slurm_events.events(judging.nodes, _summaries(judging))
        self.notes += [why] if why else []
        try:
            kept = kept_run(report, judging, str(self.folder.path.resolve()), of_slurm)
            added = past.keep(kept, resumed=self._resumed)
        except UsageError as said:
            self.notes += [] if past.lost else [str(said)]
            return
        if missing := {each.node for each in added if each.kind in (HOOK_DROPPED, HOOK_UNREAD)}:
            where = fold(sorted(missing))
            self.notes.append(f"not all that the hooks noted was there and could be read, on {where}: nodegate history")

    def _with_metrics(self, report: Report, answer: Answer, judging: Judging) -> Report:
        from nodegate.run.metrics import beside  # noqa: PLC0415 - numpy only where a server is asked

        report = beside(report, answer, lambda node: judging.contexts.of(node).parts)
        for node in report.nodes:
            self._file.write(node.records[-1:])
        self.run = report.run
        return report

    def _concluded(self, report: Report) -> Report:
        if self._conclude is None:
            return report
        try:
            answer = self._conclude(report)
        except UsageError as said:  # a log that cannot be read: the verdicts are valid anyway
            self.notes.append(str(said))
            return report
        return replace(report, run=replace(report.run, answer=answer))

    def discard(self) -> None:
        """Delete the folder of a run in which nothing was requested, if it is nodegate's and empty."""
        self._file.close()
        self.folder.discard()


def _summaries(judging: Judging) -> dict[str, NodeSummary | None]:
    return {name: judging.contexts.summary(name) for name in judging.register.asked}


def _beside(report: Report, judging: Judging) -> Beside:
    """For metrics.prom: the last verdict of nodes that were not looked at, and of the hooks of all."""
    is_again = bool(report.run.evidence)
    left = [node.node for node in report.nodes if is_again or node.verdict is NodeVerdict.NOT_JUDGED]
    earlier = judging.past.last_verdicts(left, report.run.started_epoch_s) if judging.past and left else {}
    return Beside(earlier, {name: of.hook for name, of in _summaries(judging).items() if of and of.hook})


def _notes(judging: Judging) -> Iterator[str]:
    """What is true of the run as a whole and no check says."""
    summaries = _summaries(judging)
    yield from notes({name: summary.taken_keys for name, summary in summaries.items() if summary})
    if not judging.others and judging.register.asked.keys() >= judging.nodes.keys():
        yield from unseen(judging.nodes, summaries)
    yield from stale_demands(judging.nodes, summaries, judging.asked)
    if any(judging.view.metrics(name) for name in judging.register.asked):  # else nothing was measured under load
        platforms = {name: judging.contexts.platform(name) for name in judging.register.asked}
        view, contexts = judging.view, judging.contexts
        yield from fleet_allows(platforms, view.metrics, view.peers(), lambda node: contexts.of(node).baseline)
    if judging.past and judging.past.lost:
        yield judging.past.lost
    if trees := [name for name, summary in summaries.items() if summary and summary.root]:
        yield f"NODEGATE_PROBE_ROOT is set on {fold(trees)}: what is judged is a tree of files, not the machine itself"


def build(run: Run, judging: Judging, records: Iterable[Record], checks: Mapping[str, CheckInfo]) -> Report:
    """The report of a run from its records and the nodes' own summary."""
    by_node: dict[str, list[Record]] = {name: [] for name in judging.register.asked}
    for record in records:
        by_node.setdefault(record.node, []).append(record)
    infos = {**_check_infos(judging), **checks}
    return Report(
        run=run,
        nodes=tuple(_node_report(judging, name, by_check(found, infos)) for name, found in by_node.items()),
        drift=judging.view.fleet().drift(),
        checks=infos,
        policy=judging.policy if judging.names_policy or judging.profile is Profile.DELIVERY else None,
    )


def _node_report(judging: Judging, name: str, records: list[Record]) -> NodeReport:
    unreachable = judging.contexts.unreachable(name)
    summary = judging.contexts.summary(name)
    known = summary.characteristics if summary else {}
    claims = judging.claims(name, records)
    decided = decide(name, records, claims, reachable=not unreachable)
    silent = set(judging.register.asked.get(name, ())) - {record.check for record in records}
    # if a check has no verdict (an interrupted run), the others do not make the node accepted
    verdict = NodeVerdict.INCOMPLETE if silent and decided.verdict in ACCEPTING else decided.verdict
    return NodeReport(
        node=name,
        verdict=verdict,
        platform=summary.platform if summary else judging.nodes[name].platform,
        rack=judging.nodes[name].rack,
        serials=summary.serials if summary else {},
        identity=tuple((label, value) for label, value in known.items() if not isinstance(value, Unknown)),
        records=decided.records,
        unreachable=unreachable,
        gpus=summary.gpus if summary else 0,
        claims=claims,
    )


def _check_infos(judging: Judging) -> dict[str, CheckInfo]:
    """The descriptions of the requested checks, in their order."""
    known = judging.register.checks or {check.id: check for check in suite.checks()}
    asked = dict.fromkeys(check for checks in judging.register.asked.values() for check in checks)
    return {check: CheckInfo(known[check].title, known[check].failure_modes) for check in asked if check in known}
