"""What is said of healthy fleets of every shipped platform: docs/evidence/healthy-fleets.md.

Fleets of 1 to 64 nodes of each platform, judged by every check of profile delivery:

    PYTHONPATH=tests python bench/healthy_fleets.py docs/evidence/healthy-fleets.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.healthy_fleets import GOOD, PAGE, row, shown

SIZES = (1, 2, 4, 8, 64)


def main() -> None:
    """Judge them all and write the page."""
    rows = [row(platform, count, shown(platform, count)) for platform in GOOD for count in SIZES]
    Path(sys.argv[1]).write_text(PAGE + "".join(rows), "utf-8")


if __name__ == "__main__":
    main()
