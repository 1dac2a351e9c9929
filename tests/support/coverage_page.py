"""docs/reference/coverage.md: failure mode -> check -> profile, written from the checks' own docstrings."""

import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodegate.knowledge.failure_modes import FailureMode, failure_modes
from nodegate.measure.registry import is_active
from nodegate.profile import Profile
from nodegate.suite import Check, checks

WIDTH = 100
HEAD = """# Coverage: failure mode -> check -> profile

Written by `make docs` from the docstrings of the checks; do not edit. `bootcheck`, `nightly` and
`delivery` name the least thorough profile that runs the check; `troubleshoot` runs what `nightly`
runs. "Open" is what no check finds yet.

"""


def page(suite: Iterable[Check]) -> str:
    """The page as Markdown: the checks of each failure mode, then the condition that each check states."""
    found = list(suite)
    counts = "; ".join(_count(profile, found) for profile in Profile)
    modes = "".join(_mode(mode, about, found) for mode, about in failure_modes().items())
    stated = "".join(_item(f"`{check.id}` ({check.tier}): {check.title}") for check in found)
    head = HEAD + _filled(f"{len(found)} checks: {counts}.")
    return f"{head}\n\n## Failure modes\n\n{modes}## Checks\n\n{stated}{_others(found)}"


def _count(profile: Profile, suite: Sequence[Check]) -> str:
    """How many checks a profile runs on what is read, and how many on what is measured under load."""
    load = [is_active(check.asks_for) for check in suite if profile.includes(check.tier)]
    asked = " (with --active)" if profile in (Profile.BOOTCHECK, Profile.TROUBLESHOOT) else ""
    return f"{profile.value} {load.count(False)} without load and {load.count(True)} under load{asked}"


def _mode(mode: str, about: FailureMode, suite: Sequence[Check]) -> str:
    """One failure mode: its name, its checks, what is open."""
    mine = ", ".join(f"`{check.id}` ({check.tier})" for check in suite if mode in check.failure_modes)
    still_open = _item(f"open: {about.open}") if about.open else ""
    return f"### {mode} {about.name}\n\n{_item('checks: ' + (mine or 'none'))}{still_open}\n"


def _others(suite: Sequence[Check]) -> str:
    ids = ", ".join(f"`{check.id}`" for check in suite if not check.failure_modes)
    return f"\n{_filled('Checks without a failure mode of their own: ' + ids + '.')}\n" if ids else ""


def _item(text: str) -> str:
    return f"{_filled(f'* {text}')}\n"


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(checks()), encoding="utf-8")
