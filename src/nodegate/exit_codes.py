"""What an exit code of `nodegate bootcheck` tells whoever started it. Alone here: a hook reads it in milliseconds."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code tells a hook."""

    FIT = 0
    UNFIT = 1  # a verdict on the hardware
    UNKNOWN = 2  # our own fault, a time limit, a bad file
    BUSY = 75  # another run holds the node
