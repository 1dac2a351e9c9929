"""What a run must find of the faults that are planted in a made-up node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.demo.verify import PlantedFault
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from fleet.machine import Machine


def found(machine: Machine, mode: str, what: str, *findings: str) -> list[PlantedFault]:
    """What a run must find of a fault; each finding is "check verdict subject", the subject may be left out."""
    said = [each.split(" ", 2) for each in findings]
    return [
        PlantedFault(machine.name, check, Verdict(verdict), mode, what, *subject) for check, verdict, *subject in said
    ]
