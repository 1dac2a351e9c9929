"""What a log line means: the first row that fits a line of a job's log or of a kernel log.

Job logs are read with `signatures.csv`; kernel logs with the tables that the checks use (`xid.csv`, `kernel_lines.csv`,
SXids by the printed word). A kernel line is given without its prefix (`nodegate.probe.kernel_line.parse_line`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from nodegate.knowledge import kernel_signatures
from nodegate.knowledge.rows import rows, split
from nodegate.knowledge.words import Cause, Role, Side, Text

__all__ = ["LINE_LIMIT", "Cause", "Hit", "Role", "Side", "Signature", "Text", "find", "may_hold", "signatures"]

LINE_LIMIT = 16_384  # characters of a line that are looked at
