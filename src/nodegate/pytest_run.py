"""A run inside pytest: items from checks and nodes, the campaign before the items, the records from the reports."""

from __future__ import annotations

import difflib
import inspect
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from nodegate import conditions, suite, summary
from nodegate.campaign import Campaign, Plan
from nodegate.evidence import RunFolder
from nodegate.items import ACCEPTANCE, CheckItem
from nodegate.judge.context import argument_names
from nodegate.paths import CHECKS, suite_folder
from nodegate.prepare import attach, prepare
from nodegate.profile import Profile
from nodegate.progress import Progress
from nodegate.report.jsonl import from_json
from nodegate.report.model import Run, Source
from nodegate.results import Results

if TYPE_CHECKING:
    from collections.abc import Generator

    from nodegate.settings import Settings

WORKER_FOLDER = "nodegate_run_dir"


class PytestRun:
    """The hooks of one run. In a pytest-xdist worker it only judges: the controller measures and keeps the records."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config, self._settings = config, settings
        worker_input = getattr(config, "workerinput", None)
        self._is_worker = worker_input is not None
        if worker_input is not None:
            self.prepared = attach(settings, Path(worker_input[WORKER_FOLDER]))
        else:
            self.prepared = prepare(settings, stdin=sys.stdin)
        self.acceptance = self.prepared.acceptance
        config.stash[ACCEPTANCE] = self.acceptance
        self._started = time.time()
        self._campaign: Campaign | None = None
        self.results: Results | None = None
        self._progress_stream = None if self._is_worker else _own_stderr()
        self._complaints: list[str] = []
        self._use_our_checks()

    # Collection: one item per (check, node) -------------------------------------------------------------------------

    def _use_our_checks(self) -> None:
        """Where the user named no tests: the suite's checks, and those of the site that stand in ./checks."""
        self._config.option.importmode = "importlib"
        if self._config.args_source is pytest.Config.ArgsSource.ARGS:
            return
        ours, site = suite_folder(CHECKS), self._config.invocation_params.dir / CHECKS
        own = sorted(site.glob("test_*.py")) if site.is_dir() and site.resolve() != ours.resolve() else []
        replaced = {file.name for file in own}
        files = [file for file in sorted(ours.glob("test_*.py")) if file.name not in replaced]
        self._config.args = [str(file) for file in [*files, *own]] if own else [str(ours)]

    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> list[pytest.Item] | None:
        """A function test_* in a folder called checks becomes one item per node."""
        if not name.startswith("test_") or not inspect.isfunction(obj) or collector.path.parent.name != CHECKS:
            return None
        check = suite.describe(obj, collector.obj)  # type: ignore[attr-defined]
        self._complain(check, collector.path)
        if not self._settings.profile.includes(check.tier):
            return []
        return [CheckItem.of(collector, name, check, node) for node in self.acceptance.nodes]

    def _complain(self, check: suite.Check, file: Path) -> None:
        """Note an argument that is no fact; collection itself swallows what is raised in it."""
        unknown = [name for name in check.asks_for if name not in argument_names()]
        if unknown:
            near = difflib.get_close_matches(unknown[0], argument_names(), 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(argument_names()))}"
            self._complaints.append(f"{file}: {check.id} asks for {unknown[0]!r}, which is no fact - {hint}")

    def pytest_collection_modifyitems(self) -> None:
        """Stop here when a check asks for what there is not."""
        if self._complaints:
            raise pytest.UsageError(self._complaints[0])

    def pytest_report_header(self) -> list[str]:
        """What is judged, against what."""
        settings = self._settings
        sources = (
            ", ".join(source.path for source in self.prepared.inventory) or f"{settings.replay or settings.resume}"
        )
        count = len(self.acceptance.nodes)
        return [
            f"nodegate {conditions.suite_version()}: {count} nodes from {sources}, profile {settings.profile.value}"
        ]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Now it is known what each node must give."""
        for item in session.items:
            if isinstance(item, CheckItem):
                self.acceptance.plan.setdefault(item.node_name, []).append(item.check)

    # The run --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Measure the fleet first, then let the items say their verdicts."""
        option = session.config.option
        broken = session.testsfailed and not option.continue_on_collection_errors  # pytest will run nothing
        if self.acceptance.plan and not option.collectonly and not broken and not self._is_worker:
            for node in self.begin().arrivals():
                self.acceptance.judge_node(node)
        return (yield)

    def open_folder(self) -> RunFolder:
        """The run folder, made when it is first needed."""
        if self.results is None:
            profile = self._settings.profile.value
            folder = self.acceptance.folder or RunFolder.create(
                self._settings.run_dir, profile=profile, started_epoch_s=self._started
            )
            self.acceptance.folder = folder
            run = self._conditions(folder)
            folder.write_json("run.json", conditions.run_to_json(run, self.acceptance.nodes.values()))
            self.results = Results(folder, run)
        return self.acceptance.folder  # type: ignore[return-value]  # just set

    def _conditions(self, folder: RunFolder) -> Run:
        selection = [
            f"{name} {value}"
            for name, value in (
                ("-k", self._config.option.keyword),
                ("-m", self._config.option.markexpr),
                ("--nodes", self._settings.nodes),
            )
            if value
        ]
        return Run(
            id=folder.path.resolve().name,
            profile=self._settings.profile.value,
            started_epoch_s=self._started,
            finished_epoch_s=0.0,
            suite_version=conditions.suite_version(),
            command=conditions.command_line(self._config.invocation_params.args),
            inventory=self.prepared.inventory,
            baselines=tuple(Source(each.file, each.sha256) for each in self.acceptance.baselines.sources),
            selection=", ".join(selection),
            versions=conditions.versions(),
            host=socket.gethostname(),
            user=conditions.user(),
        )

    def begin(self) -> Campaign:
        """Start to measure the nodes of the plan; once."""
        if self._campaign is None:
            folder = self.open_folder()
            plan = Plan(
                nodes=[self.acceptance.nodes[name] for name in self.acceptance.plan],
                take_lock=self._settings.profile in (Profile.DELIVERY, Profile.NIGHTLY),
                keep=self.prepared.keeps_evidence,
                nodes_at_once=self._settings.nodes_at_once,
            )
            self._campaign = Campaign(plan, folder, self.prepared.connect, Progress(self._progress_stream))
            self._campaign.start()
        return self._campaign

    # Reports --------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the record to the report that says the verdict, so that it reaches the controller."""
        report = yield
        if isinstance(item, CheckItem):
            item.tell(report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record: in the controller alone."""
        record = getattr(report, "nodegate", None)
        if record is not None and self.results is not None:
            self.results.keep(from_json(record))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End what runs on the nodes, and write the reports."""
        if self._campaign:
            self._campaign.cancel()
        if self.results is None:
            return
        interrupted = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        self.results.finish(self.acceptance, interrupted=interrupted)
        if exitstatus == pytest.ExitCode.OK and not self.results.judged:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The nodes, worst first, and where the report is."""
        if self.results is not None and self.results.report is not None and self.acceptance.folder is not None:
            terminalreporter.section("nodes")
            for line in summary.lines(self.results.report, self.acceptance.folder.path):
                terminalreporter.write_line(line)


def _own_stderr() -> TextIO | None:
    """A way to the user's terminal or log that pytest's capturing does not close."""
    try:
        return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
