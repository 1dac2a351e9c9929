"""The reports of a run beside pytest-html, for the same number of results."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

from bench import scale
from bench.side_by_side.measured import NotMeasured, as_dict, measure

if TYPE_CHECKING:
    from pathlib import Path

    from bench.side_by_side.peers import Peers

TESTS = """import pytest


@pytest.mark.parametrize("number", range({count}))
def test_one(number):
    assert number != 3, "expected at least 16, found 8"
"""


class Reports:
    """The run of so many recorded nodes, and the same number of tests for pytest-html."""

    def __init__(self, folder: Path, nodes: int, peers: Peers) -> None:
        self._folder, self._peers = folder, peers
        scale.record(folder / "nodes", nodes, under_load=False)
        self._run = scale.run(folder / "nodes", scale.ROOT, ["--inventory", "hosts.yaml", "--passive"]).run
        with gzip.open(self._run / "results.jsonl.gz", "rt") as lines:
            self.results = sum('"check":' in line for line in lines)
        (folder / "test_many.py").write_text(TESTS.format(count=self.results))

    def nodegate(self) -> dict[str, float]:
        """All reports written again from the results, in a process of their own."""
        done = measure([sys.executable, "-m", "nodegate.cli", "report", self._run], self._folder)
        if done.exit_code:
            raise NotMeasured(done.said[-300:])
        return as_dict(done.cost) | {"html_mb": (self._run / "report.html").stat().st_size / 1e6}

    def plain(self) -> dict[str, float]:
        """pytest alone, without a report."""
        return as_dict(self._pytest().cost)

    def pytest_html(self) -> dict[str, float]:
        """pytest with --html in one file."""
        done = self._pytest("--html", "report.html", "--self-contained-html")
        return as_dict(done.cost) | {"html_mb": (self._folder / "report.html").stat().st_size / 1e6}

    def _pytest(self, *options: str):  # noqa: ANN202 - of measured
        words = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "test_many.py", *options]
        done = measure([self._peers.program("pytest"), *words], self._folder)
        if done.exit_code != 1:
            raise NotMeasured(done.said[-300:])
        return done
