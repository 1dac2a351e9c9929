"""The evidence of a run: from its folder, or as another process writes it there; and what a resumed run keeps of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nodegate.errors import END_OF_THE_RUN, CannotMeasure
from nodegate.measure.measurement import Measurement, broke_off
from nodegate.measure.registry import COUNTERS, FACTS_AFTER, MEASURED, wanted
from nodegate.records.evidence import FACTS, Evidence
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


def drop_what_failed(
    folder: RunFolder, nodes: Iterable[str], measurements: Sequence[Measurement], *, facts_after: bool
) -> None:
    """Delete the evidence that a resumed run measures again: of what failed, broke off or lacked a tool.

    A node without facts is measured again as a whole: its counters must be read before its load. The facts after the
    load are read again after every load.

    Raises:
        UsageError: it cannot be deleted.
    """
    names, loaded_again = list(nodes), set[str]()
    for name in names:
        if _failed(folder, name, FACTS):
            drop_node(folder, name)
    for measurement in measurements:
        for name in names:
            evidence = folder.read_evidence(name, measurement.name)
            if evidence is not None and (evidence.error or broke_off(evidence.document or {})):
                folder.drop_evidence(name, measurement.name)
                loaded_again.add(name)
    for name in names if facts_after else ():
        if name in loaded_again or _failed(folder, name, FACTS_AFTER):
            folder.drop_evidence(name, FACTS_AFTER)


def drop_node(folder: RunFolder, name: str) -> None:
    """Delete all evidence of a node.

    Raises:
        UsageError: it cannot be deleted.
    """
    for measurement in (FACTS, *(each.name for each in wanted(MEASURED)), FACTS_AFTER):
        folder.drop_evidence(name, measurement)


def _failed(folder: RunFolder, name: str, measurement: str) -> bool:
    evidence = folder.read_evidence(name, measurement)
    return evidence is not None and evidence.error is not None
