"""A pytest run that names neither nodes nor tests: what is missing is reported, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodegate import suite
from nodegate.files.paths import CHECKS

_INVENTORIES = (".yaml", ".yml", ".ini")
SAY = "add --inventory FILE, as in: pytest --inventory hosts.yaml"


def refuse_checks(config: pytest.Config) -> None:
    """Stop if the folder has nodegate's checks: each of their files would report that it needs nodes.

    Raises:
        pytest.UsageError: it has. Never if the command line names tests.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    folders = [config.invocation_params.dir / argument for argument in config.args]
    for folder in folders:
        for file in _check_files(folder):
            if any("verdicts" in asks for asks in suite.arguments_in(file).values()):
                raise pytest.UsageError(f"{file.parent}: these are nodegate's checks, which need nodes - {SAY}")


def _check_files(folder: Path) -> list[Path]:
    checks = folder if folder.name == CHECKS else folder / CHECKS
    return sorted(checks.glob("test_*.py"))


def hint(reporter: pytest.TerminalReporter, config: pytest.Config, exit_code: int) -> None:
    """One line if there is nothing to test, or an inventory was named instead: nodes may have been meant."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    for argument in config.args if named else ():
        if exit_code == pytest.ExitCode.USAGE_ERROR and Path(argument).suffix in _INVENTORIES:
            reporter.write_line(f"{argument} names no tests; if it names nodes: pytest --inventory {argument}")
    if exit_code == pytest.ExitCode.NO_TESTS_COLLECTED and not named and not reporter.stats.get("deselected"):
        reporter.write_line(f"no tests here; for nodes, {SAY}")
