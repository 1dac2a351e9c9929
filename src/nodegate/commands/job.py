"""`nodegate job`: what is wrong with a job that runs now, from its metrics? docs/guide/job.md."""

import argparse

from nodegate.job.command import job
from nodegate.job.options import add_arguments, from_arguments

__all__ = ["add_arguments", "run"]


def run(asked: argparse.Namespace) -> int:
    """Look at a job; returns 0 healthy, 1 something is wrong, 2 cannot tell.

    Raises:
        UsageError: an option cannot be understood, or the server does not answer.
    """
    return job(from_arguments(asked))
