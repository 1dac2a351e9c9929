"""docs/guide/policies.md: its last part, a table of each claim under each shipped policy."""

import sys
from pathlib import Path

from support.claims_page import filled

from nodegate.baseline.baseline import Baselines
from nodegate.claims.table import claims
from nodegate.policy import policy_file
from nodegate.policy.policy import OTHER, PLATFORM

MARK = "## The shipped policies\n"
HEAD = """
Written by `make docs` from `policies/*.yaml`; do not edit below this line. Of each claim: the class
of its defects, which look counts where it is not the usual value, and the clause.

"""


def page(text):
    """The page with its last part written again."""
    return text.partition(MARK)[0] + MARK + HEAD + "\n".join(_part()) + "\n"


def _part():
    policies = [policy_file.read(name) for name in policy_file.shipped()]
    yield f"| claim | {' | '.join(each.policy.name for each in policies)} |"
    yield f"|---|{'---|' * len(policies)}"
    for name in (*(claim.name for claim in claims()), OTHER, PLATFORM):
        yield f"| `{name}` | {' | '.join(_cell(each, name) for each in policies)} |"
    for each in policies:
        yield from _of(each)


def _cell(policy, name):
    by_contract = {claim.name for claim in claims() if claim.asked_by}
    if name in by_contract and name not in policy.policy.items:
        return ""
    item = policy.policy.item(name)
    statistic = f", {item.statistic.value}" if item.statistic.value != "usual" else ""
    clause = f": {item.clause}" if name in policy.policy.items else ""
    return f"{item.defect_class.value}{statistic}{clause}"


def _of(policy):
    found = policy.policy
    yield f"\n### {found.name}: {found.title}\n"
    for sort, rule in found.classes.items():
        days = f", put right within {rule.days} days" if rule.days else ""
        yield filled(f"* class {sort.value}: {rule.may_fail_percent:g} % of the nodes may fail{days} ({rule.clause})")
    for item in found.not_measured:
        yield filled(f"* not measured, class {item.defect_class.value}: {item.title} ({item.clause})")
    if policy.limits.limits:
        yield "\n| platform | limit | | clause |\n|---|---|---|---|"
    Baselines.read(policy=policy.limits)  # that they hold together
    for platforms, _, limits in policy.limits.limits:
        for entry in limits.values():
            limit, clause = entry.limit, entry.clause.partition(", clause ")[2]
            yield f"| {platforms} | `{entry.key}` | {entry.direction} {limit.words()} | {clause}: {entry.source} |"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text("utf-8")), "utf-8")
