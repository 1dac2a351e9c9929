"""What a resumed run keeps of the evidence in its folder, and what it measures again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.measure.measurement import broke_off
from nodegate.measure.registry import FACTS_AFTER, MEASURED, wanted
from nodegate.records.evidence import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nodegate.measure.measurement import Measurement
    from nodegate.records.run_folder import RunFolder


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
