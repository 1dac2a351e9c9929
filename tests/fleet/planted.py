"""What a run must find of the faults that are planted in a made-up node."""

import re

from fleet.machine import Machine
from nodegate.demo.verify import PlantedFault
from nodegate.records.verdict import Verdict

_FINDING = re.compile(r"(.+?) (fail|warn|error) ?(.*)")


def found(machine: Machine, mode: str, what: str, *findings: str) -> list[PlantedFault]:
    """What a run must find of a fault.

    Each finding is "check verdict subject"; several checks may stand there, and the subject may be left out.
    """
    planted = []
    for each in findings:
        checks, verdict, subject = _FINDING.fullmatch(each).groups()  # type: ignore[union-attr]
        planted += [
            PlantedFault(machine.name, check, Verdict(verdict), mode, what, subject) for check in checks.split()
        ]
    return planted
