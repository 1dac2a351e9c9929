"""Collection: which check files belong to a run, and one item per (check, node)."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from nodegate import suite
from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.files.paths import CHECKS, suite_folder
from nodegate.files.strict_yaml import did_you_mean
from nodegate.judge.context import argument_names
from nodegate.measure.registry import is_active
from nodegate.plugin.items import CheckItem
from nodegate.run.judging import Judging


class CheckCollection:
    """The collecting hooks of a run, in its one process or in each worker of pytest-xdist."""

    def __init__(self, config: pytest.Config, judging: Judging, *, passive: bool) -> None:
        self._judging, self._passive = judging, passive
        self._places: dict[str, Path] = {}
        self._replaced: frozenset[Path] = frozenset()
        config.option.importmode = "importlib"
        self._files = [*suite.own_files(), *site_checks(config)]
        self._known: dict[str, tuple[str, ...]] | None = None
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            self._use_our_checks(config)

    def _use_our_checks(self, config: pytest.Config) -> None:
        """If the user named no tests: the suite's checks, and those of the site in ./checks."""
        ours, own = suite_folder(CHECKS), _own_checks(config.invocation_params.dir)
        self._replaced = frozenset(ours / file.name for file in own)
        config.args = [str(ours), *map(str, own)]
        config.addinivalue_line("python_files", "test_*.py")  # a site may name its own tests differently

    def known(self) -> dict[str, tuple[str, ...]]:
        """The ids of all checks of this run, of any profile, and what each asks for."""
        if self._known is None:
            self._known = {check: names for file in self._files for check, names in suite.arguments_in(file).items()}
        return self._known

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """A check file of nodegate for which the site has a file of the same name."""
        return True if collection_path in self._replaced else None

    def pytest_pycollect_makeitem(
        self, collector: pytest.Collector, name: str, obj: object
    ) -> list[pytest.Item] | None:
        """A function test_* in a folder called checks becomes one item per node.

        Raises:
            pytest.Collector.CollectError: it is not a check.
        """
        if not name.startswith("test_") or not inspect.isfunction(obj) or collector.path.parent.name != CHECKS:
            return None
        if not isinstance(collector, pytest.Module):
            raise pytest.Collector.CollectError(f"{collector.path}: {name} is a method: a check is a function")
        try:
            check = suite.describe(obj, collector.obj)
        except UsageError as said:
            raise pytest.Collector.CollectError(f"{collector.path}: {said}") from None
        self._refuse_unknown_facts(check, collector.path)
        self._refuse_twins(check, collector.path)
        self._refuse_unknown_claim(check, collector.path)
        if not self._judging.profile.includes(check.tier) or (self._passive and is_active(check.asks_for)):
            return []
        return list(CheckItem.each(collector, name, check, self._judging.nodes))

    def _refuse_unknown_facts(self, check: suite.Check, file: Path) -> None:
        unknown = [name for name in check.asks_for if name not in argument_names()]
        if unknown:
            hint = did_you_mean(unknown[0], argument_names())
            said = f"{file}: {check.id} asks for unknown fact {unknown[0]!r} - {hint}"
            raise pytest.Collector.CollectError(said)

    @staticmethod
    def _refuse_unknown_claim(check: suite.Check, file: Path) -> None:
        names = [claim.name for claim in claims()]
        if check.claim and check.claim not in names:
            hint = did_you_mean(check.claim, names)
            raise pytest.Collector.CollectError(f"{file}: {check.id} has unknown claim {check.claim!r} - {hint}")

    def _refuse_twins(self, check: suite.Check, file: Path) -> None:
        """Two checks with one id would share their verdicts."""
        other = self._places.setdefault(check.id, file)
        if other != file:
            raise pytest.Collector.CollectError(f"{file}: {check.id} is in {other} too - rename one of the files")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """After collection: what each node must be measured for is known."""
        for item in session.items:
            if isinstance(item, CheckItem):
                self._judging.register.ask(item.check, item.node_name)


def _own_checks(folder: Path) -> list[Path]:
    """The check files of a site in checks/ of this folder."""
    site = folder / CHECKS
    return sorted(site.glob("test_*.py")) if site.is_dir() and site.resolve() != suite_folder(CHECKS).resolve() else []


def paths_without_names(folder: Path) -> list[str]:
    """Where conftest.py is read in a run that names no tests: the checks, and the folder in which pytest is started.

    pytest itself would look in each folder test*/ there too, which are another project's tests, or nodegate's own.
    """
    conftest = folder / "conftest.py"
    here = [conftest] if conftest.is_file() else []  # a file: pytest looks next to it, and not below
    return [str(each) for each in (suite_folder(CHECKS), *_own_checks(folder), *here)]


def site_checks(config: pytest.Config) -> list[Path]:
    """The check files that the command line names; where it names none, those in ./checks, beside the suite's."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return _own_checks(config.invocation_params.dir)
    files: list[Path] = []
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        files += path.rglob(f"{CHECKS}/test_*.py") if path.is_dir() and path.name != CHECKS else path.glob("test_*.py")
        if path.is_file():
            files.append(path)
    return files
