"""Standard output whose reader is gone: `nodegate ... | head -1`."""

import os
import sys


def discard() -> None:
    """The reader of standard output is gone: leave nothing on which Python could fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
