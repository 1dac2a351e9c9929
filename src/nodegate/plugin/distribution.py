"""pytest-xdist: the controller measures, the workers judge the evidence, and a node stays on one worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from nodegate import suite
from nodegate.plugin.run import WORKER_CHECKS, WORKER_FOLDER, PytestRun
from nodegate.records.run import CheckInfo

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


def node_of(item_id: str) -> str:
    """The node in an item's id: "checks/test_pcie.py::test_link_width[gpu0042]" is about gpu0042."""
    return item_id.rpartition("[")[2].removesuffix("]")


def check_of(item_id: str) -> str:
    """The check in an item's id: "pcie.link_width" in the same example."""
    file, _, rest = item_id.partition("::")
    return suite.check_id(file.rpartition("/")[2].removesuffix(".py"), rest.partition("[")[0])


class NodeScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps all items of a node on one worker, so that its facts are read once.

    Not `--dist loadgroup`: with pytest 9.2 and xdist 3.8 it no longer groups (pytest-xdist#1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return node_of(nodeid)


class XdistRun:
    """The hooks that only a pytest-xdist controller calls."""

    def __init__(self, run: PytestRun, config: pytest.Config) -> None:
        self._run, self._config = run, config
        self._broken = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> NodeScheduling:
        """The scheduler of nodegate's own runs."""
        return NodeScheduling(config, log)

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker where the evidence will be."""
        node.workerinput[WORKER_FOLDER] = str(self._run.open_folder().path.resolve())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a check file that cannot be collected."""
        self._broken += report.failed

    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: Sequence[str]) -> None:
        """The first worker knows what is asked for: measure it.

        Raises:
            pytest.Session.Interrupted: a check file is broken; without workers pytest stops there too.
        """
        del node
        if self._broken and not self._config.option.continue_on_collection_errors:
            raise pytest.Session.Interrupted("a check file cannot be collected")
        asked = self._run.judging.register.asked
        if ids and not asked:
            nodes, checks = self._run.judging.nodes, self._run.known_checks()
            for item_id in ids:
                if node_of(item_id) in nodes and check_of(item_id) in checks:  # else a user's own test
                    asked.setdefault(node_of(item_id), []).append(check_of(item_id))
            if asked:
                self._run.begin()

    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Take over what a worker knows about its checks."""
        for check, title, failure_modes in getattr(node, "workeroutput", {}).get(WORKER_CHECKS, ()):
            self._run.checks_of_workers[check] = CheckInfo(title, tuple(failure_modes))
