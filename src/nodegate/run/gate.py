"""What the judging side says while the fleet is measured: who may take part, and who is to be measured again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate import suite
from nodegate.errors import Busy, CannotMeasure
from nodegate.judge.fleet import SAME_MACHINE_STEP
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodegate.measure.measurement import Measurement
    from nodegate.metric import Metric
    from nodegate.run.judging import Judging


# There load would do harm, whoever answers for the failure: to somebody's work, to a node whose driver asks for a reset
# before anything else, or by one more process that nobody can end.
HARMED = frozenset({"idle.processes", "gpu.recovery_action", "host.blocked_processes"})


class Gate:
    """Judges by the checks themselves: the same that the report shows."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    def refusal(self, node: str, measurement: Measurement) -> CannotMeasure | None:
        """Why a node must not take part in a measurement; None when it may.

        A waived failure does not keep it out: somebody answers for it, and the node is to carry work all the same. What
        was not measured is an error, which no waiver covers, so a node that is kept out could never be accepted. It is
        kept out where load would do harm (HARMED). Its neighbours lose time: a node that spoils a launch over some is
        searched for and left out, so far as there is a third node to tell two apart by.
        """
        summary = self._judging.summary(node)
        if summary is None:
            return CannotMeasure("the node gave no facts", next_step="see what its other checks say")
        if summary.busy:
            return Busy(
                f"the node is busy: {summary.busy}", next_step="drain it, wait until its job ends, then run again"
            )
        if said := self._judging.same_machine(node):
            return CannotMeasure(said, next_step=SAME_MACHINE_STEP)
        for name in measurement.rests_on:
            record = self._judging.record(suite.check(name), node)
            if record.verdict is Verdict.FAIL and (name in HARMED or not record.waiver):
                waived = " (waived, but load would do harm)" if record.waiver else ""
                first = record.decisive[0]
                reason = f"blocked by {name}: {first.part.short}: {first.brief}{waived}"
                return CannotMeasure(reason, next_step="fix that first, then run again", blocked_by=name)
        return None

    def suspects(self, measured: Mapping[str, Sequence[Metric]]) -> frozenset[str]:
        """The nodes whose numbers would not pass as they are."""
        from nodegate.numbers.suspects import suspects  # noqa: PLC0415 - pandas only where something was measured

        platforms = {name: self._judging.platform(name) for name in measured}
        baselines = {name: self._judging.baseline(name) for name in measured}
        return suspects({name: (platforms[name], metrics) for name, metrics in measured.items()}, baselines)
