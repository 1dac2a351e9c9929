"""Checks that only some contracts ask for: which are judged on a node."""

from collections.abc import Callable
from functools import cache

from nodegate.baseline.baseline import Baseline
from nodegate.claims.table import claims
from nodegate.policy.policy import Policy
from nodegate.records.claim import Claim

NOT_ASKED = "no policy or baseline of this node requires it (nodegate explain policies)"


def is_asked_for(check: str, policy: Policy | None, baseline: Callable[[], Baseline]) -> bool:
    """Whether a check is to be judged on a node: one that only contracts ask for, where one of them does."""
    proven = _by_contract(check)
    return not proven or not by_contract(policy, baseline()).isdisjoint(proven)


def by_contract(policy: Policy | None, baseline: Baseline | None) -> frozenset[str]:
    """The claims that only contracts ask for, and that a policy or a limit of a node does ask for."""
    named = policy.items if policy else {}
    return frozenset(
        claim.name for claim in claims() if claim.asked_by and (claim.name in named or _has(baseline, claim))
    )


def _has(baseline: Baseline | None, claim: Claim) -> bool:
    return baseline is not None and any(baseline.find(key) is not None for key in claim.asked_by)


@cache
def _by_contract(check: str) -> frozenset[str]:
    """The claims that a check proves, where only contracts ask for all of them."""
    proven = [claim for claim in claims() if check in claim.proving]
    return frozenset(claim.name for claim in proven if all(each.asked_by for each in proven))
