"""What is said of healthy fleets of every shipped platform: docs/evidence/healthy-fleets.md.

Fleets of 1 to 64 nodes of each platform, judged by every check of profile delivery:

    PYTHONPATH=tests python bench/healthy_fleets.py docs/evidence/healthy-fleets.md [NODES[=PLATFORM,...] ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill

from support.healthy_fleets import GOOD, PAGE, row, shown

SIZES = ("1", "2", "4", "8", "64")


def main() -> None:
    """Judge them all, or those that are asked for, and write the page."""
    asked = [each.partition("=") for each in sys.argv[2:] or SIZES]
    fleets = [(each, int(count)) for count, _, named in asked for each in named.split(",") if each]
    fleets += [(each, int(count)) for count, _, named in asked if not named for each in GOOD]
    rows = [row(*each, shown(*each)) for each in sorted(fleets, key=lambda each: (list(GOOD).index(each[0]), each[1]))]
    said = ", ".join(f"{count} of {named.replace(',', ', ') or 'each platform'}" for count, _, named in asked)
    Path(sys.argv[1]).write_text(PAGE.format(fill(f"Number of nodes: {said}.", 100)) + "".join(rows), "utf-8")


if __name__ == "__main__":
    main()
