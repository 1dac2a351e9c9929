"""A user's own line format: a regular expression with named groups, under a time limit.

A pattern can take time that grows with a power of the line's length, or worse. So lines are cut, a match that takes
longer than MOST_CPU_S of processor time is ended, and the pattern is refused if that continues.
"""

import re
import signal
import warnings

from nodegate.errors import UsageError
from nodegate.watch.reading import GROUPS, Reading, reading

MOST_CHARACTERS = 2000
MOST_CPU_S = 0.1
MOST_TIMEOUTS = 10
_HINT = (
    "named groups: (?P<iteration>...) and one of ms, s, per_s (iterations a second), elapsed;"
    f" also {', '.join(GROUPS[5:])}"
)


class OwnPattern:
    """Reads lines by the user's pattern."""

    def __init__(self, pattern: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "possible nested set": a warning about future Python versions
                self._pattern = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as said:
            raise UsageError(f"--pattern is not a regular expression: {said}", hint=_HINT) from said
        names = set(self._pattern.groupindex)
        if unknown := names - set(GROUPS):
            raise UsageError(f"--pattern has an unknown group: {', '.join(sorted(unknown))}", hint=_HINT)
        if "iteration" not in names or len(names & {"ms", "s", "per_s", "elapsed"}) != 1:
            raise UsageError("--pattern does not name the iteration and its time", hint=_HINT)
        self._timeouts = 0

    def __call__(self, line: str) -> Reading | None:
        """The reading of a line.

        Raises:
            UsageError: the pattern repeatedly took too long.
        """
        line = line[:MOST_CHARACTERS]
        before = signal.signal(signal.SIGVTALRM, _ring)  # the engine looks for signals while it tries
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_S)
                found = self._pattern.search(line)
            finally:  # the alarm may still come here
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _TooLongError:
            self._timeouts += 1
            if self._timeouts < MOST_TIMEOUTS:
                return None
            raise UsageError(
                f"--pattern takes more than {MOST_CPU_S} s for a line of {len(line)} characters",
                hint="do not nest repetitions, and use [^|]* in place of .*",
            ) from None
        finally:
            signal.signal(signal.SIGVTALRM, before)
        return reading("pattern", found.groupdict()) if found else None


class _TooLongError(Exception):
    pass


def _ring(_number: int, _frame: object) -> None:
    raise _TooLongError
