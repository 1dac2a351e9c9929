"""What each planted fault reads like wherever it is told, word for word, in tests/golden/.

To accept new words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import os
from pathlib import Path

import pytest
from support.faulty_nodes import PLANTS, names, records_of

from nodegate import suite
from nodegate.causes.lines import line
from nodegate.claims.verdict import node_verdict
from nodegate.hook.slurm import reason
from nodegate.profile import Profile
from nodegate.records.run import NodeReport, Run
from nodegate.report.model import Report
from nodegate.run import answer
from nodegate.run.bootcheck import outcome_of
from nodegate.run.conclusion import conclude

GOLDEN = Path(__file__).parents[1] / "golden"
TIERS = {check.id: check.tier for check in suite.checks()}
WIDTH = 120


def texts(records):
    """Every place that speaks of a node, as an operator reads it."""
    run = Run("run", "troubleshoot", 0.0, 0.0, "0")
    report = Report(run, (NodeReport(records[0].node, node_verdict(records), records=records, gpus=8),))
    boot = outcome_of(tuple(record for record in records if Profile.BOOTCHECK.includes(TIERS[record.check])))
    rows = [line(cause) for cause in report.causes]
    return {
        "terminal": [each.text for each in answer.lines(report, Path("reports/run"), WIDTH)],
        "bootcheck": boot.lines,
        "Slurm's reason": [reason(boot.line)],
        "troubleshoot": [conclude(report)],
        "report": [f"{row.severity} | {row.part} | {row.what} | {row.more} | {row.action}" for row in rows],
        "decisive findings": [f"{cause.decisive.check}: {cause.decisive.finding.message}" for cause in report.causes],
    }


@pytest.mark.parametrize(("kind", "plant"), [(kind, plant) for kind in PLANTS for plant in PLANTS[kind]], ids=names)
def test_words_of_a_fault(kind, plant):
    records = records_of(kind, (plant,))["faulty1"]
    told = "".join(f"{where}\n" + "".join(f"  {text}\n" for text in said) for where, said in texts(records).items())
    file = GOLDEN / f"{kind}-{plant.__name__}.txt"
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.write_text(told, encoding="utf-8")
    assert told == file.read_text(encoding="utf-8")


def test_no_words_are_left_of_a_fault_that_is_no_longer_planted():
    planted = {f"{kind}-{plant.__name__}.txt" for kind, plants in PLANTS.items() for plant in plants}
    assert {file.name for file in GOLDEN.glob("*-*.txt")} == planted
