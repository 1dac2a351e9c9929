"""The terminal of a run, quiet while nodegate's items are judged, the answer last; and then the notices of --notice."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from nodegate.files.paths import CHECKS
from nodegate.notices.target import parse_all
from nodegate.notices.tell import tell_event, tell_run
from nodegate.plugin.items import CheckItem
from nodegate.plugin.run import PytestRun

_DEFAULT_REPORT = "fE"  # pytest's own: a list of what failed or broke
_DEFAULT_TRACEBACK = "auto"
Status = tuple[str, str, "str | tuple[str, dict[str, bool]]"]


class Terminal:
    """Keeps dots, tracebacks and summaries of nodegate's items off the terminal, unless -v, -rA or --tb ask for it."""

    def __init__(self, config: pytest.Config, run: PytestRun) -> None:
        self._config, self._run = config, run
        option = config.option
        self.quiet = (
            hasattr(option, "verbose")  # without pytest's terminal there is none
            and option.verbose <= 0
            and option.reportchars in ("", _DEFAULT_REPORT)
            and option.tbstyle in (_DEFAULT_TRACEBACK, "no")
            and not option.collectonly
        )
        run.is_alone = self.quiet and _only_ours(config)
        if run.is_alone:
            # no header, no count of items: nodegate's own line says what is judged
            option.verbose = min(option.verbose, -1)
            _remember_no_names(config)
        self._capture = option.capture
        if run.is_alone:
            option.capture = (
                "no"  # pytest's terminal, which is made next, shows no percentages of what it does not capture
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """What is judged, against what, and notes for the user."""
        self._config.option.capture = self._capture
        reporter = self._reporter
        if self.quiet and self._config.option.verbose < 0 and reporter is not None:
            for line in self._run.pytest_report_header():
                reporter.write_line(line)
            workers = self._config.pluginmanager.get_plugin("terminaldistreporter")
            if workers is not None:  # "bringing up nodes..." are not the nodes that people think of here
                self._config.pluginmanager.unregister(workers)

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Generator[None, Status, Status]:
        """Print no letter for an item of nodegate: it is counted, and the answer has its verdict."""
        category, letter, word = yield
        return (category, "", "") if self.quiet and getattr(report, "is_nodegate", False) else (category, letter, word)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The terminal keeps every report for its summary, from which ours are left out: not to the end then."""
        if self.quiet and self._reporter is not None and getattr(report, "is_nodegate", False):
            for kept in self._reporter.stats.values():
                if kept and kept[-1] is report:
                    kept.pop()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """If all items are nodegate's, no file names either."""
        reporter = self._reporter
        self._run.is_alone = self.quiet and all(isinstance(item, CheckItem) for item in session.items)
        if self._run.is_alone and reporter is not None:
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """No failures, errors or list of nodegate's items in pytest's own form."""
        if self.quiet:
            for category, reports in terminalreporter.stats.items():
                kept = [report for report in reports if not getattr(report, "is_nodegate", False)]
                if category:
                    terminalreporter.stats[category] = kept
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """The answer, after everything that pytest prints at its end."""
        reporter = self._reporter
        if self.quiet and reporter is not None and self._run.has_answer and _told_ours_alone(session, reporter):
            reporter.summary_stats = _nothing  # type: ignore[method-assign] # "73 failed, 167 errors" is not an answer
        yield
        if reporter is not None:
            self._run.say_answer(reporter)


def _only_ours(config: pytest.Config) -> bool:
    """Whether the command line names no tests but checks (or, put there by us, a conftest.py)."""
    named = [Path(arg.partition("::")[0]) for arg in config.args]
    ours = all(CHECKS in (path.name, path.resolve().parent.name) or path.name == "conftest.py" for path in named)
    return ours or config.args_source is not pytest.Config.ArgsSource.ARGS


def _remember_no_names(config: pytest.Config) -> None:
    """Without the list of all items that pytest keeps for a later --nf: 150,000 names of 1,250 nodes, twice over."""
    plugin = config.pluginmanager.get_plugin("nfplugin")
    if plugin is not None and not config.option.newfirst:
        config.pluginmanager.unregister(plugin)


def _told_ours_alone(session: pytest.Session, reporter: pytest.TerminalReporter) -> bool:
    """Whether nothing was run but items of ours; under pytest-xdist only the reports say so."""
    reports = (report for category in reporter.stats.values() for report in category)
    others = any(isinstance(report, pytest.TestReport) and not hasattr(report, "is_nodegate") for report in reports)
    return not others and all(isinstance(item, CheckItem) for item in getattr(session, "items", ()))


def _nothing() -> None:
    """Nothing."""


class RunNotices:
    """The hooks for --notice; of a run that only judges again nothing is sent. The targets are read at the start."""

    def __init__(self, run: PytestRun) -> None:
        self._run, self._settings = run, run.prepared.settings
        self._targets = () if self._settings.replay else parse_all(self._settings.notices)

    def pytest_sessionfinish(self) -> None:
        """Send what is new. Nothing of it changes the exit code."""
        results = self._run.results
        if results is None or not self._run.has_answer or not self._targets:
            return
        results.notes += [each.warning for each in self._targets if each.warning]
        to = (self._targets, self._settings.record, self._settings.lang)
        try:
            if results.report is None:
                about = {"run": results.folder.path, "reason": self._run.trouble}
                results.notes += tell_event("no-report", about, *to, entrance="pytest")
            else:
                results.notes += tell_run(results.folder.path, *to, report=results.report)
        except Exception as fault:  # noqa: BLE001 - a notice ends no run and changes no exit code
            results.notes.append(f"no notice was sent: an internal error ({type(fault).__name__}), please report it")
