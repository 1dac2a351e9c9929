"""What is said of fleets whose nodes are all wrong in the same way: docs/evidence/wrong-alike.md.

Twelve fleets of 1, 4, 8 and 64 HGX H100 nodes, judged by every check of profile delivery:

    PYTHONPATH=tests python bench/wrong_alike.py docs/evidence/wrong-alike.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.wrong_alike import FLEETS, PAGE, row, told

SIZES = (1, 4, 8, 64)


def main() -> None:
    """Judge them all and write the page."""
    rows = [row(alike, count, told(alike, count)) for alike in FLEETS for count in SIZES]
    Path(sys.argv[1]).write_text(PAGE + "".join(rows), "utf-8")


if __name__ == "__main__":
    main()
