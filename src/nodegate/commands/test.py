"""`nodegate test`: pytest, if it is not on PATH. Everything after the word goes to pytest, including --help."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib import metadata


def run(arguments: Sequence[str]) -> int:
    """Do what `pytest ARGUMENTS` does, through pytest's entry point, for its handling of signals and closed output."""
    try:
        metadata.distribution("nodegate")
        plugin = []
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        plugin = ["-p", "nodegate.plugin"]
    # nodegate is imported already, which pytest would warn of before each answer
    quiet = ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    sys.argv = ["pytest", *plugin, *quiet, *arguments]
    try:
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
