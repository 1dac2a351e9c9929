"""`nodegate watch`: is a training slow or silent? docs/guide/watch.md."""

import argparse

from nodegate.watch.command import watch
from nodegate.watch.options import add_arguments, from_arguments

__all__ = ["add_arguments", "run"]


def run(asked: argparse.Namespace) -> int:
    """Watch a log; returns 0 healthy, 1 slow or silent, 2 could not tell.

    Raises:
        UsageError: the log cannot be read, or an option cannot be understood.
    """
    return watch(from_arguments(asked))
