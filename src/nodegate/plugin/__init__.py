"""The pytest plugin. Inert without --inventory, --replay or --resume; with one of them a `PytestRun` does the work."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nodegate import suite
from nodegate.errors import UsageError
from nodegate.files.paths import CHECKS
from nodegate.plugin import options

if TYPE_CHECKING:
    from nodegate.plugin.run import PytestRun

RUN: pytest.StashKey[PytestRun] = pytest.StashKey()
_INVENTORIES = (".yaml", ".yml", ".ini")
_SAY = "add --inventory FILE, as in: pytest --inventory hosts.yaml"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The options of docs/guide/running.md."""
    options.add(parser, pluginmanager)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """In a run over nodes that names no tests, do not load a conftest.py of the current folder's own tests."""
    given = early_config.known_args_namespace
    if options.is_active(given) and not given.file_or_dir:
        from nodegate.plugin.collection import paths_without_names  # noqa: PLC0415 - as below

        given.file_or_dir = paths_without_names(early_config.invocation_params.dir)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read what the run needs; contact no node."""
    config.addinivalue_line(
        "markers", "tier(profile): the least thorough profile that runs this check: bootcheck, nightly or delivery"
    )
    config.addinivalue_line(
        "markers", "claim(name): the claim of nodegate to which a site's own check belongs; without it: site"
    )
    settings = options.settings(config)
    if not settings.active or config.option.help:
        return
    from nodegate.plugin.run import PytestRun  # noqa: PLC0415
    from nodegate.plugin.terminal import RunNotices, Terminal  # noqa: PLC0415

    try:
        run = PytestRun(config, settings)
        notices = None if hasattr(config, "workerinput") else RunNotices(run)
    except UsageError as said:
        raise pytest.UsageError(str(said)) from None
    config.stash[RUN] = run
    config.pluginmanager.register(run, "nodegate.run")
    if notices is not None:
        config.pluginmanager.register(notices, "nodegate.notices")
    config.pluginmanager.register(Terminal(config, run), "nodegate.terminal")
    if config.pluginmanager.hasplugin("xdist"):
        from nodegate.plugin.distribution import XdistRun  # noqa: PLC0415

        config.pluginmanager.register(XdistRun(run, config), "nodegate.xdist")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """A run without nodes in a folder of checks ends before they are read: each file would say that it needs nodes.

    Raises:
        pytest.UsageError: the folder has nodegate's checks. Never if the command line names tests.
    """
    config = session.config
    if RUN in config.stash or config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    for folder in (config.invocation_params.dir / argument for argument in config.args):
        checks = folder if folder.name == CHECKS else folder / CHECKS
        for file in sorted(checks.glob("test_*.py")):
            if any("verdicts" in asks for asks in suite.arguments_in(file).values()):
                raise pytest.UsageError(f"{file.parent}: these are nodegate's checks, which need nodes - {_SAY}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """One line if there is nothing to test, or an inventory was named instead: nodes may have been meant."""
    if RUN in config.stash:
        return
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    for argument in config.args if named else ():
        if exitstatus == pytest.ExitCode.USAGE_ERROR and Path(argument).suffix in _INVENTORIES:
            terminalreporter.write_line(f"{argument} names no tests; if it names nodes: pytest --inventory {argument}")
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not named and not terminalreporter.stats.get("deselected"):
        terminalreporter.write_line(f"no tests here; for nodes, {_SAY}")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Checks need nodes: report that before pytest says "fixture 'pci' not found".

    Raises:
        pytest.Collector.CollectError: a check is collected in a run without nodes.
    """
    if RUN in collector.config.stash or collector.path.parent.name != CHECKS:
        return
    if name.startswith("test_") and inspect.isfunction(obj) and "verdicts" in inspect.signature(obj).parameters:
        raise pytest.Collector.CollectError(f"{collector.path}: nodegate's checks need nodes: add --inventory FILE")
