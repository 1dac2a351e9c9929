"""What a log line means: the first row that matches a line of a job's log or of a kernel log.

Job logs are read with `signatures.csv`; kernel logs with the tables that the checks use: `xid.csv`, SXids by the word
that they print, and `kernel_lines.csv`. A kernel line is given without its prefix
(`nodegate.probe.kernel_log.parse_line`), a line of a job log as it is.
"""

import re
from functools import cache

from nodegate.knowledge import kernel_signatures
from nodegate.knowledge.kernel_signatures import Hit
from nodegate.knowledge.required import required, shortest
from nodegate.knowledge.tables import lines, rows
from nodegate.knowledge.words import Cause, Role, Side, Signature, Text

LINE_LIMIT = 16_384  # characters of a line that are searched: an error is at the start of its line
_CUDA = "{cuda}"  # in a pattern: the names and texts that `cuda_errors.csv` has for this row
_CUDA_SAYS = r"(?:CUDA (?:runtime |driver )?error|C(?:uda|UDA) failure|Cuda error|cuda(?: e|E)rror)[^\n]{0,80}?"


@cache
def signatures() -> tuple[Signature, ...]:
    """Every signature, kernel side first, in the order in which they are tried."""
    return (*kernel_signatures.code_signatures(), *_rows_of(Side.KERNEL), *_user())


def find(line: str, side: Side) -> Hit | None:
    """The first signature that matches a line; None for a line without a fault.

    Only the first `LINE_LIMIT` characters are searched. A line that contains none of `literals` is skipped before any
    pattern is tried.
    """
    looked_at = line[:LINE_LIMIT]
    for literal in literals(side):
        if literal in looked_at:
            break
    else:
        return None
    if side is Side.KERNEL and (hit := kernel_signatures.find_code(looked_at)):
        return hit
    for signature in _rows_of(side):
        if signature.may_fit(looked_at) and (match := signature.pattern.search(looked_at)):
            return Hit(signature, match)
    return None


@cache
def signature(id_: str) -> Signature:
    """The signature of a job's lines with this id."""
    return next(each for each in _user() if each.id == id_)


@cache
def literals(side: Side, *, roots_only: bool = False) -> tuple[str, ...]:
    """Strings, one of which is in every line with a signature: for a search over whole blocks of a log.

    `roots_only`: with a signature that does not only add detail to another line.
    """
    codes = kernel_signatures.LITERALS if side is Side.KERNEL else ()
    wanted = [rule for rule in _rows_of(side) if not roots_only or rule.role is not Role.CONTEXT]
    return shortest([*codes, *(literal for rule in wanted for literal in rule.holds)])


@cache
def _rows_of(side: Side) -> tuple[Signature, ...]:
    return lines() if side is Side.KERNEL else _user()


@cache
def _user() -> tuple[Signature, ...]:
    return tuple(
        Signature(
            id=row["id"],
            side=Side.USER,
            role=Role(row["role"]),
            cause=Cause(row["cause"]),
            pattern=re.compile(pattern),
            meaning=Text.read(row, "meaning"),
            action=Text.read(row, "action"),
            failure_modes=tuple(row["failure_modes"].split()),
            example=row["example"],
            holds=tuple(sorted(required(pattern))),
        )
        for row in rows("signatures.csv")
        for pattern in [row["pattern"].replace(_CUDA, _of_cuda(row["id"]))]
    )


@cache
def _of_cuda(id_: str) -> str:
    """The pattern of CUDA's errors of this row: each by its text, its runtime name and its driver name."""
    found: list[str] = []
    for row in rows("cuda_errors.csv"):
        if row["row"] == id_:
            text = re.escape(row["text"])
            found += [text if row["alone"] else _CUDA_SAYS + text] if text else []
            found += [rf"{name}\b" for name in (row["runtime"], row["driver"]) if name]
    return "|".join(found)
