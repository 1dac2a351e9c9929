"""The nvidia-bug-report of a node: one that exists. nodegate never runs it: it takes minutes and disturbs the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.files.bounded import read_given
from nodegate.files.gz import Damaged, compress, expand
from nodegate.rma.subject import all_serials

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.rma.subject import Subject

NAME = "nvidia-bug-report.log.gz"
MOST_BYTES, MOST_TEXT = 64 << 20, 512 << 20
_GZIP = b"\x1f\x8b"
_SHORTEST = 3  # letters of a name that is looked for


def bug_report(about: Subject, beside: Path, given: Path | None) -> bytes:
    """The report that is given, else the one that is beside the evidence, compressed; empty where there is none.

    Raises:
        UsageError: it cannot be read, or names neither the node nor a part of it.
    """
    names = (NAME, NAME.removesuffix(".gz"))
    file = given or next((each for name in names if (each := beside / name).is_file()), None)
    if file is None or (given is None and file.is_symlink()):
        return b""
    try:
        raw = read_given(file, MOST_BYTES)
        text = expand(raw, MOST_TEXT) if raw.startswith(_GZIP) else raw
    except (OSError, Damaged) as error:
        said = getattr(error, "strerror", "") or error
        raise UsageError(f"the bug report cannot be read: {said}", file=str(file)) from None
    if len(raw) > MOST_BYTES or len(text) > MOST_TEXT:
        raise UsageError("the bug report is larger than any", file=str(file), hint="send it by itself")
    signs = {about.name, about.name.partition(".")[0], *all_serials(about.report, about.node)}
    if not any(sign.encode() in text for sign in signs if len(sign) >= _SHORTEST):
        hint = "is it another node's? one of this node has its host name or a serial number of it"
        raise UsageError(f"the bug report does not name {about.name}", file=str(file), hint=hint)
    return raw if raw.startswith(_GZIP) else compress(raw)
