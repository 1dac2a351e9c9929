"""The exit codes of `nodegate bootcheck`. In their own file, so that a hook can import them in milliseconds."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit code for a hook."""

    FIT = 0
    UNFIT = 1  # a verdict on the hardware
    UNKNOWN = 2  # an internal error, a time limit, a bad file
    BUSY = 75  # another run holds the node

    @property
    def word(self) -> str:
        """What programs read in place of the number."""
        return self.name.lower()
