"""The user's own streams, which pytest's capturing replaces, and how wide a line of them is."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import pytest

_WIDTH_OF_A_LOG = 120


def width(reporter: pytest.TerminalReporter) -> int:
    """Characters of a line: those of the terminal, or as COLUMNS asks; a log or a mail has no width of its own."""
    is_known = reporter.isatty or os.environ.get("COLUMNS")
    return reporter.config.get_terminal_writer().fullwidth if is_known else _WIDTH_OF_A_LOG


def stdin(config: pytest.Config) -> TextIO:
    """Standard input, which pytest's capturing has replaced."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is not None:
        capturing.suspend_global_capture(in_=True)
    return sys.stdin


def own_stderr() -> TextIO | None:
    """A stream to the user's terminal or log that pytest's capturing does not close."""
    try:
        return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
