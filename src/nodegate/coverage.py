"""docs/coverage.md: failure mode -> check -> profile, written from the checks' own docstrings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.knowledge.failure_modes import failure_modes
from nodegate.profile import Profile
from nodegate.suite import Check, checks

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """# Coverage: failure mode -> check -> profile

Written by `make docs` from the docstrings of the checks; do not edit. `bootcheck`, `nightly` and `delivery` name the
least thorough profile that runs the check; `troubleshoot` runs what `nightly` runs. "Open" is what no check finds yet.

| failure mode | checks (from profile) | open |
|---|---|---|
"""


def page(suite: Iterable[Check]) -> str:
    """The page as Markdown."""
    found = list(suite)
    rows = []
    for mode, about in failure_modes().items():
        mine = [check for check in found if mode in check.failure_modes]
        shown = "<br>".join(f"`{check.id}` ({check.tier}): {check.title}" for check in mine) or "none"
        rows.append(f"| **{mode}** {about.name} | {shown} | {about.open} |")
    others = [check for check in found if not check.failure_modes]
    rest = "".join(f"* `{check.id}` ({check.tier}): {check.title}\n" for check in others)
    counts = ", ".join(
        f"{sum(profile.includes(check.tier) for check in found)} in {profile.value}" for profile in Profile
    )
    tail = f"\n{len(found)} checks: {counts}.\n"
    return (
        HEAD
        + "\n".join(rows)
        + "\n"
        + tail
        + (f"\nChecks without a failure mode of their own:\n\n{rest}" if rest else "")
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(checks()), encoding="utf-8")
