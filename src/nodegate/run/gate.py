"""Decisions while the fleet is measured: which nodes may take part, and which are measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodegate import suite
from nodegate.baseline.baseline import Baseline
from nodegate.engines.engine import BUSY
from nodegate.errors import Busy, CannotMeasure
from nodegate.judge.fleet import OWN_MACHINE, SAME_MACHINE_STEP
from nodegate.measure.measurement import Measurement
from nodegate.metric import Metric
from nodegate.numbers.assessments import Bounds, Doubt, suspects, with_their_like
from nodegate.numbers.peers import Measured
from nodegate.records.evidence import FACTS
from nodegate.records.verdict import Verdict
from nodegate.run.judging import Judging

# Failures with which load would do harm, even if they are waived: to someone's job, to a node whose driver asks for
# a reset first, or by one more process that cannot be ended.
HARMED = frozenset({"idle.processes", "gpu.recovery_action", "host.blocked_processes"})
USE = "use of the node"  # the code of what a node lacks whose processes are not all seen
SEE_ALL_STEP = "give nodegate root (ansible_become: true); if it has it, drain and reboot the node; then run again"


class Gate:
    """Decides by the checks themselves, with the results that the report shows."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    def refusal(self, node: str, measurement: Measurement) -> CannotMeasure | None:
        """Why a node must not take part in a measurement; None if it may.

        A waived failure does not exclude it: the waiver has an owner, and the node is to run jobs anyway. What was not
        measured is an error, which no waiver covers, so an excluded node could never be accepted. It is excluded if
        load would do harm (HARMED), and if it is not known whether it would. Its neighbours lose time: a node that
        breaks a multi-node launch is located by bisection, if a third node is available.
        """
        summary = self._judging.contexts.summary(node)
        if summary is None:
            step = "check the node's other findings"
            return CannotMeasure("the node's facts could not be read", next_step=step, lacks=FACTS)
        lent = f"its GPUs were given to a job (group {BUSY})" if BUSY in self._judging.nodes[node].groups else ""
        if summary.busy or lent:
            return Busy(
                f"the node is busy: {summary.busy or lent}",
                next_step="drain it, wait until its job ends, then run again",
            )
        if said := self._judging.view.wrong_machine(node):
            return CannotMeasure(said, next_step=SAME_MACHINE_STEP, lacks=OWN_MACHINE)
        for name in measurement.rests_on:
            record = self._judging.record(suite.check(name), node)
            if record.verdict is Verdict.FAIL and (name in HARMED or not record.waiver):
                waived = " (waived, but load would do harm)" if record.waiver else ""
                first = record.decisive[0]
                reason = f"blocked by {name}: {first.part.short}: {first.brief}{waived}"
                return CannotMeasure(reason, next_step="fix that first, then run again", blocked_by=name)
        if summary.use_unknown:  # last: what is known to be wrong says more
            reason = f"whether the node is in use is unknown: {summary.use_unknown}"
            return CannotMeasure(reason, next_step=SEE_ALL_STEP, lacks=USE)
        return None

    def suspects(
        self, measured: Mapping[str, Sequence[Metric]], bounds: Mapping[str, Bounds], *, alone: bool
    ) -> dict[str, tuple[Doubt, ...]]:
        """The nodes whose numbers would not pass as they are; `bounds` is what physics allows on each node.

        `alone`: whether each node is measured without the others; then all nodes of the platform are looked at again.
        """
        of_platforms, baselines = self._known(measured)
        view = self._judging.view
        found = suspects(of_platforms, baselines, bounds, lambda node: view.earlier(node, measured[node]))
        return with_their_like(found, of_platforms) if alone else found

    def _known(self, measured: Mapping[str, Sequence[Metric]]) -> tuple[Measured, dict[str, Baseline]]:
        """The numbers with the platforms of their nodes, and the baselines."""
        of_platforms = {name: (self._judging.contexts.platform(name), metrics) for name, metrics in measured.items()}
        return of_platforms, {name: self._judging.contexts.of(name).baseline for name in measured}
