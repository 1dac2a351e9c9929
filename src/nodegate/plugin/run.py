"""A run inside pytest: the campaign before the items, the records from the reports, the report at the end."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.plugin.collection import CheckCollection, site_checks
from nodegate.plugin.interrupt import Interrupts, has_line, own_stderr, stdin, width
from nodegate.plugin.items import ACCEPTANCE, CheckItem
from nodegate.plugin.listeners import AtOnce, Listeners
from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.run import CheckInfo, Run
from nodegate.records.run_folder import RunFolder
from nodegate.records.store import from_bytes
from nodegate.release import suite_version
from nodegate.report.fleet_result import fleet_result
from nodegate.report.model import Report
from nodegate.run import answer, conditions, earlier_folder
from nodegate.run.campaign import Campaign
from nodegate.run.gate import Gate
from nodegate.run.mark_passed import mark_passed
from nodegate.run.prepare import attach, prepare
from nodegate.run.progress import JUDGING, Progress
from nodegate.run.results import Results
from nodegate.run.run_evidence import drop_node
from nodegate.run.settings import Settings
from nodegate.text import counted

MOST_NOTES = 10
# Items, records and facts have no cycles: they go when the last reference goes. Python's usual thresholds spend a tenth
# of a run on looking through all of them.
_RARE_COLLECTIONS = (5_000, 10, 200)
WORKER_FOLDER = "nodegate_run_dir"
WORKER_CHECKS = "nodegate_checks"


class PytestRun:
    """The hooks of one run. In a pytest-xdist worker it only judges: the controller measures and keeps the records."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        settings = replace(settings, checks=tuple(site_checks(config)))
        worker_input = getattr(config, "workerinput", None)
        self._is_worker = worker_input is not None
        if worker_input is not None:
            self.prepared = attach(settings, Path(worker_input[WORKER_FOLDER]))
        else:
            self.prepared = prepare(settings, stdin=stdin(config) if "-" in settings.inventory else None)
        self.judging = self.prepared.judging
        config.stash[ACCEPTANCE] = self.judging
        self._started = time.time()
        self._campaign: Campaign | None = None
        self.results: Results | None = None
        self.checks_of_workers: dict[str, CheckInfo] = {}
        self.trouble = ""
        self.is_alone = False  # whether pytest writes nothing while the items are judged (plugin/terminal.py)
        self._interrupts, self._collections = Interrupts(), gc.get_threshold()
        self._measuring = self._judging_progress = Progress(None)
        self._collection = CheckCollection(config, self.judging, passive=self.prepared.settings.passive)
        config.pluginmanager.register(self._collection, "nodegate.collection")
        self._listeners = Listeners(config)
        waivers = self.judging.waivers
        known, named = frozenset(self._collection.known()), [claim.name for claim in claims()]
        odd = waivers.check(checks=known, claims=named, nodes=self.judging.nodes) if waivers.waivers else ()
        self._notes = (*self.prepared.notes, *self._odd_evidence(), *odd)

    def _odd_evidence(self) -> tuple[str, ...]:
        """What of the evidence of an earlier run is not as that run wrote it."""
        settings = self.prepared.settings
        folder = settings.resume or settings.replay
        if folder is None or self._is_worker:
            return ()
        return earlier_folder.notes(RunFolder(folder).manifest.odd_files(), resumed=settings.resume is not None)

    def pytest_report_header(self) -> list[str]:
        """What is judged, against what, and notes for the user."""
        settings = self.prepared.settings
        sources = ", ".join(source.path for source in self.prepared.inventory)
        earlier = settings.replay or settings.resume
        nodes, profile = counted(len(self.judging.nodes), "node"), self.judging.profile.value
        policy = f", policy {settings.policy}" if settings.policy else ""
        head = f"nodegate {suite_version()}: {nodes} from {sources or earlier}, profile {profile}{policy}"
        more = len(self._notes) - MOST_NOTES
        notes = [f"note: {note}" for note in self._notes[:MOST_NOTES]]
        return [head, *notes, *([f"note: {more} more of these"] if more > 0 else [])]

    def pytest_sessionstart(self) -> None:
        """Before there are workers, and before the items are collected. A folder that is refused ends the run here."""
        gc.set_threshold(*_RARE_COLLECTIONS)
        if self._is_distributed:
            self.open_folder()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Measure the fleet first, then let the items report their verdicts."""
        option = session.config.option
        broken = session.testsfailed and not option.continue_on_collection_errors  # pytest will run nothing
        try:
            if self.judging.register.asked and not option.collectonly and not broken and not self._is_worker:
                self._measure_and_judge(session.items)
            return (yield)
        finally:
            self._judging_progress.done()

    def _measure_and_judge(self, items: list[pytest.Item]) -> None:
        """Measure the fleet, and judge each node as it comes in. `items` are left those that pytest is to run."""
        campaign = self.begin()
        gc.freeze()  # modules and items stay: no collection need look through them
        at_once = AtOnce(items if self.is_alone else [], self.judging, self._listeners, self._keep)
        try:
            for node in campaign.arrivals():
                self.judging.judge_node(node)
                at_once.node_judged(node)
                self._measuring.node_judged()
        except UsageError as said:
            self._stop(str(said))
        # where pytest writes too, a live line would wipe it
        self._judging_progress = Progress(own_stderr() if self.is_alone else None, live=not self._is_distributed)
        self._judging_progress.stage(JUDGING, len(self.judging.register.asked))
        for node in self.judging.register.asked:  # node by node: pytest's order would unpack its facts for each check
            self.judging.judge_last(node)
            items.extend(at_once.node_judged(node))
            self._judging_progress.node_done(failed=False)

    def open_folder(self) -> RunFolder:
        """The run folder, created on first use.

        Raises:
            pytest.UsageError: it cannot be created.
        """
        if self.results is None:
            try:
                self.results = self._results()
            except UsageError as said:
                raise pytest.UsageError(str(said)) from None
        return self.results.folder

    def _results(self) -> Results:
        folder = self.judging.evidence.folder or RunFolder.create(
            self.prepared.settings.run_dir, profile=self.judging.profile.value, started_epoch_s=self._started
        )
        folder.hold()
        if self.prepared.settings.resume:
            for name in self.prepared.moved:  # before run.json has the new address
                drop_node(folder, name)
            folder.go_on()
        self.judging.evidence.folder = folder
        run = self._conditions(folder)
        judging = self.judging
        conditions.write(
            folder, conditions.run_file(run, judging.nodes.values(), self.prepared.settings, judging.others)
        )
        conclusion = self._conclusion if self.judging.profile is Profile.TROUBLESHOOT else None
        resumed = self.prepared.settings.resume is not None
        results = Results(folder, run, conclusion, asked=judging.register.asked, resumed=resumed)
        results.everything = self.prepared.settings.all_results
        return results

    def _conclusion(self, report: Report) -> str:
        """The answer after a failed job; its logs are read together with the kernel logs of this run."""
        from nodegate.run.conclusion import conclude  # noqa: PLC0415 - with the tables of every log message

        logs = self.prepared.settings.job_logs
        if not logs or self.results is None:
            return conclude(report)
        from nodegate.triage.triage import triage  # noqa: PLC0415

        return conclude(
            report, triage([*logs, str(self.results.folder.path)], nodes=(each.node for each in report.nodes))
        )

    def _conditions(self, folder: RunFolder) -> Run:
        option = self._config.option
        asked = (("-k", option.keyword), ("-m", option.markexpr), ("--nodes", self.prepared.settings.nodes))
        return Run(
            id=folder.path.resolve().name,
            profile=self.judging.profile.value,
            started_epoch_s=self._started,
            finished_epoch_s=0.0,
            suite_version=suite_version(),
            command=conditions.command_line(self._config.invocation_params.args),
            inventory=self.prepared.inventory,
            baselines=self.judging.baselines.sources,
            selection=", ".join(f"{name} {value}" for name, value in asked if value),
            versions=conditions.versions(),
            host=socket.gethostname(),
            user=conditions.user(),
            evidence=self.prepared.evidence,
            contract=self.prepared.contract,
        )

    def begin(self) -> Campaign:
        """Start to measure the requested nodes; once.

        Raises:
            pytest.UsageError: the run folder cannot be created.
        """
        if self._campaign is None:
            self._interrupts.begin()
            folder, settings = self.open_folder(), self.prepared.settings
            self._measuring = Progress(own_stderr(), live=not self._is_distributed)
            plan = self.prepared.plan(self._asked_for(), judged_here=not self._is_distributed)
            self._campaign = Campaign(plan, folder, self.prepared.connections, Gate(self.judging), self._measuring)
            try:
                if self.results is not None:
                    self.results.metrics = self.prepared.metrics(folder)
                self._campaign.start()
            except UsageError as said:
                raise pytest.UsageError(str(said)) from None
            if settings.run_dir is None and settings.resume is None:
                folder.point_latest()
        return self._campaign

    def known_checks(self) -> dict[str, tuple[str, ...]]:
        """The ids of all checks that there are here, of any profile, and what each asks for."""
        return self._collection.known()

    def _asked_for(self) -> set[str]:
        """The names of all facts that the checks of this run ask for. Under pytest-xdist only the workers have them."""
        known = self.known_checks()
        checks = {check for asked in self.judging.register.asked.values() for check in asked}
        return {fact for check in checks for fact in known.get(check, ())}

    def _stop(self, trouble: str) -> None:
        """End the run: its results can no longer be stored."""
        self.trouble = trouble
        pytest.exit(trouble, returncode=pytest.ExitCode.INTERNAL_ERROR)

    # Reports --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the record to the report with the verdict, so that it reaches the controller."""
        report = yield
        if isinstance(item, CheckItem):
            item.tell(report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record, only in the controller; before other plugins write the report somewhere."""
        record = getattr(report, "nodegate", None)
        if record is None or self.results is None:
            return
        del report.nodegate  # pytest keeps its reports to the end
        self._keep(record if isinstance(record, Record) else from_bytes(Record, record))

    def _keep(self, record: Record) -> None:
        """Write a record down; a run that cannot ends."""
        if self.results is None or self.trouble:
            return
        try:
            self.results.keep(record)
        except OSError as broken:
            self._stop(f"{self.results.folder.path}: the results cannot be written: {broken.strerror}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The run is ending: another signal, at any moment, does not stop its reports."""
        self._interrupts.take()
        excinfo.traceback = excinfo.traceback.filter(has_line)  # pytest fails on the others

    def pytest_unconfigure(self) -> None:
        """Restore the handlers of the signals that end a run, and how often memory is collected."""
        self._interrupts.give_back()
        gc.set_threshold(*self._collections)
        if self._campaign:
            gc.freeze()  # pytest collects five times now, and Python at its end: not through all that a run leaves

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End what runs on the nodes, and write the reports."""
        if self._is_worker:
            checks = self.judging.register.checks.values()
            self._config.workeroutput[WORKER_CHECKS] = [  # type: ignore[attr-defined]
                [check.id, check.title, list(check.failure_modes)] for check in checks
            ]
            return
        self._interrupts.take()
        if self._campaign:
            self._campaign.cancel(hurry=lambda: self._interrupts.seen)
            self.trouble = self.trouble or self._campaign.trouble
            if self.results is not None:
                self.results.notes += self._campaign.notes
        if self.results is None:
            return
        if not self.judging.register.asked:
            self.results.discard()
            return
        interrupted = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        try:
            if interrupted:
                self.results.keep_unreported(self.judging.unreported())
            self.results.finish(self.judging, self.checks_of_workers, interrupted=interrupted)
            if self.results.report and not interrupted and not self.prepared.settings.replay:
                self.results.notes += mark_passed(self.results.report, self.judging, self.prepared.connect)
        except OSError as broken:
            path = self.results.folder.path
            self.trouble = self.trouble or f"{path}: the reports cannot be written: {broken.strerror}"
        session.exitstatus = self._exit_code(exitstatus)

    def _exit_code(self, said: int) -> int:
        """The exit code of pytest, unless it is better than the nodes' verdicts."""
        if self.trouble:
            return pytest.ExitCode.INTERNAL_ERROR
        if said != pytest.ExitCode.OK or self.results is None or self.results.report is None:
            return said
        if not self.results.judged:
            return pytest.ExitCode.NO_TESTS_COLLECTED
        nodes = self.results.report.nodes
        bad = any(node.is_no_success for node in nodes)
        fleet = fleet_result(self.results.report) if self.prepared.settings.policy else None
        bad = bad or (fleet is not None and fleet.is_no_success)
        return pytest.ExitCode.TESTS_FAILED if bad else said

    @property
    def _is_distributed(self) -> bool:
        """Whether pytest-xdist runs the items; its output would be overwritten by a live line."""
        return self._config.pluginmanager.hasplugin("dsession")

    @property
    def has_answer(self) -> bool:
        """Whether anything was requested of a node in this session."""
        return not self._is_worker and self.results is not None and bool(self.judging.register.asked)

    def say_answer(self, reporter: pytest.TerminalReporter) -> None:
        """The verdicts of the nodes, the causes, and where the report is."""
        if self._is_worker:
            return
        reporter.ensure_newline()
        if self.results is not None and self.results.report is not None:
            for note in (*self.results.report.run.notes, *self.results.notes):
                reporter.write_line(f"note: {note}", yellow=True)
            for line in answer.lines(self.results.report, self.results.folder.path, width(reporter)):
                reporter.write_line(line.text, **({line.colour: True} if line.colour else {}))
        if self.trouble:
            reporter.write_line(f"ERROR: {self.trouble}", red=True)
