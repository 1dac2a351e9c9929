"""The four ways a run is used: which checks it has and how much it may disturb a node."""

from enum import Enum


class Profile(str, Enum):
    """A profile runs its own checks and those of the less thorough tiers."""

    BOOTCHECK = "bootcheck"  # before a job, on the node itself: passive
    NIGHTLY = "nightly"  # idle nodes only: a busy node is skipped, never disturbed
    DELIVERY = "delivery"  # acceptance
    TROUBLESHOOT = "troubleshoot"  # after a failed job

    def includes(self, tier: str) -> bool:
        """Whether a check of this tier (`bootcheck`, `nightly` or `delivery`) belongs to the profile."""
        return TIERS.index(tier) <= _DEPTH[self]


TIERS = ("bootcheck", "nightly", "delivery")
_DEPTH = {Profile.BOOTCHECK: 0, Profile.NIGHTLY: 1, Profile.DELIVERY: 2, Profile.TROUBLESHOOT: 1}
