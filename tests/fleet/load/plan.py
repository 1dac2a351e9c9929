"""What becomes of a made-up node under load: nothing unusual, until a demo or a test says otherwise."""

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from nodegate.errors import CannotMeasure
from nodegate.records.program_run import Attempt

Change = Callable[[Any], object]
Attempts = Sequence[Attempt]  # of one node, in their order: the first measurement, then those of a suspect
LOAD_S = 900.0  # from the facts before the load to those after it
BEGIN_S, BURN_S = 30.0, 600.0  # the burn begins so long after the facts, and lasts so long


@dataclass
class UnderLoad:
    """What is unusual about a node under load.

    `changes` alter what a healthy node's measurement gives, by its name. Each planting is a list with a change for each
    attempt; the last one holds for all further attempts. `refused` says why a measurement was not made.
    """

    changes: dict[str, list[tuple[Change, ...]]] = field(default_factory=dict)
    refused: dict[str, CannotMeasure] = field(default_factory=dict)

    def attempts(self, measurement: str) -> int:
        """How often the node is measured: a suspect more than once."""
        return max((len(planted) for planted in self.changes.get(measurement, ())), default=1)

    def apply(self, measurement: str, attempt: int, found: object) -> None:
        """Change what an attempt gives, from 0 on."""
        for planted in self.changes.get(measurement, ()):
            planted[min(attempt, len(planted) - 1)](found)


def near(value: float, percent: float, *names: object) -> float:
    """A value as much as `percent` % above or below `value`; the same for the same names."""
    digest = sha256("/".join(map(str, names)).encode()).digest()
    halves = (int.from_bytes(digest[at : at + 4], "big") / 0xFFFFFFFF for at in (0, 4))
    return value * (1 + percent / 100 * (sum(halves) - 1))


def wire(mark: str, document: Mapping[str, Any]) -> str:
    """A document as the program of a measurement prints it, behind its mark."""
    packed = base64.b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode())).decode()
    return f"\n{mark}{packed}\n"
