"""The evidence of a run while it is judged: from its folder, or as another process writes it there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from nodegate.errors import END_OF_THE_RUN, CannotMeasure
from nodegate.measure.registry import COUNTERS, FACTS_AFTER, MEASURED
from nodegate.records.evidence import FACTS, Evidence

if TYPE_CHECKING:
    from nodegate.records.run_folder import RunFolder

NO_EVIDENCE_STEP = "run again with --resume to measure what is missing"
_POLL_S = 0.05


@dataclass
class RunEvidence:
    """`folder` is created when the first node is measured; until then there is none.

    With `attached`, another process measures, and this one waits for its evidence (a pytest-xdist worker).
    """

    folder: RunFolder | None = None
    attached: bool = False

    def of(self, node: str, measurement: str = FACTS) -> Evidence:
        """The evidence of a node; an error where the run has ended without."""
        found = self._read(node, measurement)
        if found is not None:
            return found
        error = CannotMeasure(
            "this node was not measured before the run ended", next_step=NO_EVIDENCE_STEP, lacks=END_OF_THE_RUN
        )
        return Evidence(node, measurement, 0.0, 0.0, error=error)

    def _read(self, node: str, measurement: str) -> Evidence | None:
        """The evidence; None if the run has ended without.

        From another process, measurements under load are complete only at the end: a suspect is measured again.
        """
        while self.folder is not None:
            ended = not self.attached or self.folder.is_measured  # before the look, so that what came last is seen
            evidence = self.folder.read_evidence(node, measurement) if ended or measurement == FACTS else None
            if evidence is not None or ended:
                return evidence
            time.sleep(_POLL_S)
        return None


def evidence_paths(node: str, asks_for: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of the evidence of what a check asks for."""
    measured = [FACTS_AFTER if name == COUNTERS else name for name in asks_for if name in MEASURED]
    return _paths(node, (FACTS, *measured))


@lru_cache(maxsize=64)
def _paths(node: str, measured: tuple[str, ...]) -> tuple[str, ...]:
    """Of a hundred checks of a node most have the same paths: they are kept once."""
    return tuple(f"evidence/{node}/{name}.json" for name in measured)
