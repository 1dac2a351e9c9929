"""What an earlier run measured under load, read again from its evidence."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.records.run_folder import RunFolder
from nodegate.report.reader import load
from nodegate.run.conditions import read_earlier
from nodegate.run.judging import Judging
from nodegate.run.run_evidence import RunEvidence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nodegate.metric import Metric
    from nodegate.records.run import Run


@dataclass(frozen=True)
class MeasuredNode:
    """One node of an earlier run.

    `good`: nothing failed there, was waived or could not be measured. `about`: driver, VBIOS and the like, by name.
    """

    platform: str
    good: bool
    metrics: tuple[Metric, ...]
    about: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MeasuredRun:
    """An earlier run and its nodes by name."""

    run: Run
    nodes: dict[str, MeasuredNode]


def read(folder: Path, baselines: Sequence[Path] = ()) -> MeasuredRun:
    """Everything that a run measured under load.

    Raises:
        UsageError: the folder has no run, or one without a report.
    """
    earlier = read_earlier(RunFolder.existing(folder))
    report = load(folder)
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    nodes = {node.name: node for node in earlier.nodes}
    evidence = RunEvidence(RunFolder(folder))
    judging = Judging(nodes, earlier.profile, Baselines.read(baselines), Waivers((), today), evidence)
    return MeasuredRun(
        report.run,
        {
            node.node: MeasuredNode(
                judging.contexts.platform(node.node),
                node.is_sound and not any(record.waiver for record in node.records),
                judging.view.metrics(node.node),
                node.identity,
            )
            for node in report.nodes
            if node.node in nodes
        },
    )
