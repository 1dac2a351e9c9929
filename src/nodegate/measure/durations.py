"""How long each measurement may take, by profile; `--burn` and `--hang-after` set the burn itself and NCCL's limit."""

import re
from dataclasses import dataclass, replace

from nodegate.errors import UsageError
from nodegate.profile import Profile

_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SHORTEST_BURN_S = 1.0
LONGEST_BURN_S = 14 * 86400.0


@dataclass(frozen=True)
class Durations:
    """Seconds for the parts of a run under load.

    `burn_s` is the load itself, without start and end. `copies_s` is for all memory copies of a GPU together, `link_s`
    for one direction of one NIC pair, `collective_s` the limit of one NCCL launch inside a node (a hang ends there),
    `group_s` the same for a launch over nodes. `rounds` are the rounds of NIC pairs; None: every pair of nodes.
    `looks` at each number of a node by itself: so many at first, and then up to each of the others while a number of
    some node is doubtful.
    """

    burn_s: float
    copies_s: float
    link_s: float
    collective_s: float
    group_s: float
    rounds: int | None = 3
    looks: tuple[int, ...] = (3, 6, 9)


OF_PROFILE = {
    Profile.DELIVERY: Durations(burn_s=600.0, copies_s=30.0, link_s=5.0, collective_s=180.0, group_s=300.0),
    Profile.NIGHTLY: Durations(burn_s=60.0, copies_s=10.0, link_s=3.0, collective_s=60.0, group_s=120.0, looks=(3,)),
    Profile.BOOTCHECK: Durations(
        burn_s=15.0, copies_s=5.0, link_s=2.0, collective_s=20.0, group_s=60.0, rounds=1, looks=(1,)
    ),
    Profile.TROUBLESHOOT: Durations(
        burn_s=45.0, copies_s=10.0, link_s=3.0, collective_s=60.0, group_s=90.0, looks=(3,)
    ),
}


def durations_of(profile: Profile, *, burn: str = "", hang_after: str = "", all_pairs: bool = False) -> Durations:
    """The durations of a run. Raises UsageError: `burn` or `hang_after` is not a valid duration."""
    chosen = OF_PROFILE[profile]
    if burn:
        chosen = replace(chosen, burn_s=seconds(burn))
    if hang_after:
        limit_s = seconds(hang_after, "--hang-after")
        chosen = replace(chosen, collective_s=limit_s, group_s=limit_s)
    return replace(chosen, rounds=None) if all_pairs else chosen


def seconds(text: str, option: str = "--burn", *, most_s: float = LONGEST_BURN_S) -> float:
    """The seconds of "90s", "10m", "24h" or "2d". A number alone is refused: it could mean seconds or minutes.

    Raises:
        UsageError: it is none of these, or out of range.
    """
    said = text.strip()
    if _NUMBER.fullmatch(said):
        raise UsageError(f"{option} {text}: a duration needs its unit", hint=f"write {said}s or {said}m")
    match = _TIME.fullmatch(said)
    found = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not SHORTEST_BURN_S <= found <= most_s:
        days = f"{most_s / _SECONDS['d']:g} days"
        raise UsageError(f"{option} {text}: not a duration from 1 s to {days}", hint="write 90s, 10m, 24h or 2d")
    return found
