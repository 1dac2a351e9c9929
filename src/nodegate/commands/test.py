"""`nodegate test`: pytest, if it is not on PATH. Everything after the word goes to pytest."""

import contextlib
import io
import re
import runpy
import sys
from collections.abc import Sequence
from importlib import metadata


def run(arguments: Sequence[str]) -> int:
    """Do what `pytest ARGUMENTS` does, through pytest's entry point, for its handling of signals and closed output.

    Of --help only nodegate's own options: pytest prints ten times as many.
    """
    if not {"-h", "--help"}.intersection(arguments):
        return _pytest(arguments)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = _pytest(arguments)
    ours = re.search(r"^nodegate: .*?(?=^\S)", printed.getvalue(), re.MULTILINE | re.DOTALL)
    print((ours[0] if ours else printed.getvalue()) + "pytest's own options: pytest --help")
    return code


def _pytest(arguments: Sequence[str]) -> int:
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
