"""How far a measured number may be from what it is compared with: read from the baseline, never written in Python."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodegate.baseline.baseline import Baseline
from nodegate.errors import UsageError

# Limit key of each margin. Those in percent are kept as parts of one.
_KEYS = {
    "peers_min": "measured.peers_min",
    "fleet_floor": "measured.fleet_floor_percent",
    "fleet_z": "measured.fleet_z",
    "wronged": "measured.fleet_wronged_percent",
    "warned": "measured.fleet_warned_percent",
    "doubted": "measured.fleet_doubted_percent",
    "latency_floor": "measured.latency_floor_percent",
    "temperature_floor_c": "measured.temperature_floor_c",
    "inside_floor": "measured.inside_floor_percent",
    "history_floor": "measured.history_floor_percent",
    "drift_floor": "measured.drift_floor_percent",
    "past_z": "measured.past_z",
    "past_noise": "measured.past_noise_percent",
    "slow_part_min": "measured.slow_part_min_percent",
    "fast_part_min": "measured.fast_part_min_percent",
    "batch_floor": "measured.batch_floor_percent",
    "unequal_floor": "measured.unequal_floor_percent",
    "loose": "measured.loose_percent",
}
_OF_A_NODE = 100  # numbers of a node in a run: by how many the chance of a needless warning is divided


@dataclass(frozen=True)
class Margins:
    """The margins of one node. Parts of one unless the name says otherwise.

    `peers_min`: nodes with this value, the judged one among them, from which on the fleet is a judge. `fleet_floor`:
    how far below the median of the others, at least. `wronged`: the chance that a fleet of good nodes has one that is
    called bad. `warned`: the chance that a good value is warned of. `doubted`: the chance that one as slow as is sought
    passes by luck, and is not looked at again. `looking`: whether it is about more looks, not about a verdict.
    `fleet_z`: how many robust deviations of what is learned from are left out, and allowed by what is learned.
    `latency_floor` stands in place of all floors for times (µs), `temperature_floor_c` for °C. `inside_floor`: below
    the other devices of the node. `history_floor`: below the node's own newest runs. `drift_floor`: lost since it was
    accepted. `past_z`: how many deviations no good device is behind its own past, of all numbers of a year.
    `past_noise`: how far two runs lie apart by chance, where neither its own runs nor other nodes tell. `slow_part_min`
    and `fast_part_min`: the parts of a fleet from which on it counts as split. `batch_floor`: how far below the rest of
    the fleet the nodes of a rack or a firmware are all rejected; `unequal_floor` the same with other software than the
    rest. `loose`: how far above a baseline's value that value proves nothing any more.
    """

    peers_min: float
    fleet_floor: float
    fleet_z: float
    wronged: float
    warned: float
    doubted: float
    latency_floor: float
    temperature_floor_c: float
    inside_floor: float
    history_floor: float
    drift_floor: float
    past_z: float
    past_noise: float
    slow_part_min: float
    fast_part_min: float
    batch_floor: float
    unequal_floor: float
    loose: float
    looking: bool = False

    @staticmethod
    def of(baseline: Baseline) -> Margins:
        """The margins that a baseline gives.

        Raises:
            NotJudged: one is missing: without it a comparison would pass everything.
            UsageError: one is no positive number.
        """
        found = {name: _number(baseline, key) for name, key in _KEYS.items()}
        found["warned"] /= _OF_A_NODE
        return Margins(**found)  # type: ignore[arg-type]  # all but `looking` are numbers

    def for_a_look(self) -> Margins:
        """Those by which a node is measured again."""
        return replace(self, looking=True)


def _number(baseline: Baseline, key: str) -> float:
    limit = baseline.number(key)
    value = limit.value
    if not value > 0:
        raise UsageError(f"{key} must be a number above 0, not {value!r}", hint=f"it comes from {limit.source}")
    return value / 100 if key.endswith("_percent") else value
