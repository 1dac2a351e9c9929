"""docs/reference/claims.md: what must be proven for each profile, by which checks and limits, on which platform."""

import sys
import textwrap
from pathlib import Path

from nodegate.baseline.baseline import Baselines
from nodegate.claims.provable import provable
from nodegate.claims.table import claims
from nodegate.node import Node

WIDTH = 100
HEAD = """# Claims: what must be proven before a node is accepted

Written by `make docs` from `checks/claims.yaml` and the shipped baselines; do not edit. A claim
belongs to its profile and to the more thorough ones. Where a table shows no limit, a site brings
one (`--baseline`, `nodegate baseline learn`), or signs for the gap in `--waivers`.

"""


def page():
    """The page as Markdown."""
    return HEAD + "\n".join("\n".join(_claim(claim)) for claim in claims())


def _claim(claim):
    yield f"## {claim.name} ({claim.tier})\n"
    yield f"{claim.title[0].upper()}{claim.title[1:]}.\n"
    if claim.proof:
        yield filled(f"* has to pass: {', '.join(f'`{check}`' for check in claim.proof)}")
    if claim.rests_on:
        yield filled(f"* and, of other claims: {', '.join(f'`{check}`' for check in claim.rests_on)}")
    for check, reason in claim.silent_ok:
        yield filled(f"* may say nothing: `{check}`: {reason}")
    if claim.speak:
        yield filled(f"* refuted too where one of these fails: {', '.join(f'`{each}`' for each in claim.speak)}")
    if claim.asked_by:
        yield filled(f"* only where a policy or a baseline has {' or '.join(f'`{key}`' for key in claim.asked_by)}")
    if claim.needs:
        yield filled(f"* needs: {claim.needs}")
    yield ""
    if claim.limits:
        yield "| platform | judged by | source |\n|---|---|---|"
        yield from _limits(claim)
        yield ""


def _limits(claim):
    baselines = Baselines.read()
    for name in sorted(baselines.platforms):
        (found,) = provable([claim], baselines.for_node(Node("any", expected={"platform": name}), None, None))
        limits = "; ".join(f"`{key}` {limit.words()}" for key, limit in found.limits)
        sources = "; ".join(limit.source.replace("|", "/") for _, limit in found.limits)
        yield f"| {name} | {'; '.join(filter(None, (limits, *found.missing)))} | {sources} |"


def filled(text):
    """A point of a list, in lines as short as a page's."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
