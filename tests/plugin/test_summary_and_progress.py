"""The last words of a run over many nodes, and its progress in a log."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import sample_report

from lab.processes import wait_until
from nodegate.finding import Finding, Record
from nodegate.report.model import NodeReport, Report
from nodegate.run import progress, summary
from nodegate.run.progress import Progress
from nodegate.verdict import NodeVerdict, Verdict


def failed(node: str, message: str) -> NodeReport:
    finding = Finding("GPU 3", Verdict.FAIL, message)
    record = Record(node, "pcie.link_width", Verdict.FAIL, message, (finding,))
    return NodeReport(node, NodeVerdict.REJECTED, records=(record,))


def last_words(report: Report, folder: Path = Path("nowhere")) -> list[str]:
    return list(summary.lines(report, folder))


def test_1250_nodes_that_fail_alike_are_two_lines() -> None:
    nodes = tuple(failed(f"gpu{number:04}", "GPU 3: link width 2 lanes") for number in range(1, 1251))
    assert last_words(Report(sample_report.run(), nodes)) == [
        "rejected                1250  gpu[0001-1250]",
        "  rejected: gpu[0001-1250]: pcie.link_width: GPU 3: link width 2 lanes",
    ]


def test_1250_nodes_that_fail_each_in_its_own_way_are_a_screenful() -> None:
    nodes = tuple(failed(f"gpu{number:04}", f"GPU 3: {number} errors") for number in range(1, 1251))
    lines = last_words(Report(sample_report.run(), nodes))
    assert len(lines) == 2 + summary.MOST_LINES
    assert lines[-1] == f"  rejected: {1250 - summary.MOST_LINES} more lines in the report"


def test_a_run_that_was_ended_says_how_to_go_on() -> None:
    run = replace(sample_report.run(), interrupted=True)
    lines = last_words(Report(run, (NodeReport("gpu1", NodeVerdict.INCOMPLETE),)), Path("reports/x"))
    assert "  the run ended before every check had spoken; go on with: pytest --resume reports/x" in lines


def test_a_report_that_was_not_written_is_not_named() -> None:
    assert not [line for line in last_words(Report(sample_report.run())) if line.startswith("report:")]


class Log(io.StringIO):
    """A log file that keeps what it got when it is closed."""

    said = ""

    def close(self) -> None:
        self.said = self.getvalue()
        super().close()


def test_a_log_gets_a_line_now_and_then_and_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 600.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    log = Log()
    told = Progress(log)
    begun_s = time.monotonic()
    told.stage("facts", 4)
    told.node_done(failed=True)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.2)
    assert wait_until(lambda: log.getvalue().count("\n") >= 2)
    told.done()
    told.done()
    lines = log.said.splitlines()
    assert len(lines) <= (time.monotonic() - begun_s) / 0.2
    assert all(line.startswith("facts: 1 of 4 nodes, 1 could not be measured, ") for line in lines)
    assert "\r" not in log.said


def test_a_log_on_a_full_disk_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "REFRESH_EVERY_S", 0.01)
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - Progress closes it
    told = Progress(full)
    told.stage("facts", 1)
    told._ended.wait(0.1)
    told.done()
    assert told._stream is None or full.closed
