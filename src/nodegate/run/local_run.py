"""A bootcheck with load: this node alone, measured and judged as in a run, without a run folder."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.measure.durations import durations_of
from nodegate.measure.registry import COUNTERS, MEASURED, wanted
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.finding import Record
from nodegate.records.run_folder import RunFolder
from nodegate.run.campaign import Campaign
from nodegate.run.gate import Gate
from nodegate.run.judging import Judging
from nodegate.run.load import Connections, Plan
from nodegate.run.progress import Progress
from nodegate.run.run_evidence import RunEvidence
from nodegate.suite import Check
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport.command import CommandSession


def judge_here(node: Node, checks: Sequence[Check], baselines: Baselines, profile: Profile) -> tuple[Record, ...]:
    """The checks' verdicts on this machine, including the measurements under load that they ask for.

    Raises:
        UsageError: no temporary folder can be written.
        Busy: another run holds the node's lock, or the node is busy.
    """
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    asked_for = {name for check in checks for name in check.asks_for}
    with tempfile.TemporaryDirectory(prefix="nodegate-bootcheck-") as kept:
        folder = RunFolder.create(Path(kept) / "run", profile=profile.value, started_epoch_s=0.0)
        judging = Judging({node.name: node}, profile, baselines, Waivers((), today), RunEvidence(folder))
        for check in checks:
            judging.register.ask(check, node.name)
        plan = Plan(
            nodes=[node],
            durations=durations_of(profile),
            measurements=wanted(asked_for & MEASURED),
            facts_after=COUNTERS in asked_for,
            take_lock=True,
        )
        connections = Connections(CommandSession, lambda session: Toolbox(session, session.node))
        campaign = Campaign(plan, folder, connections, Gate(judging), Progress(None))
        campaign.start()
        try:
            for name in campaign.arrivals():
                judging.judge_node(name)
        finally:
            campaign.cancel()
        judging.refuse_if_busy(node.name)
        return tuple(judging.record(check, node.name) for check in checks)
