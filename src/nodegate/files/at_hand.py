"""What a run has just written, for who reads it next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    _State = tuple[int, int, int]

_MOST_BYTES = 4 << 20  # of all files together: as objects they take six times as much memory


class AtHand:
    """A few megabytes of files that are still to be read. Each is taken once, from any thread."""

    def __init__(self) -> None:
        self._written: dict[Path, tuple[Mapping[str, object], _State]] = {}
        self._bytes = 0
        self._guard = threading.Lock()

    def put(self, file: Path, value: Mapping[str, object]) -> None:
        """What a file says that was written now; not kept where there is no place for it."""
        self.take(file)
        state = _state(file)
        with self._guard:
            if state is not None and self._bytes + state[1] <= _MOST_BYTES:
                self._written[file] = value, state
                self._bytes += state[1]

    def take(self, file: Path) -> Mapping[str, object] | None:
        """What a file says, if it is at hand, and the file is as it was written."""
        with self._guard:
            if file not in self._written:
                return None
            value, state = self._written.pop(file)
            self._bytes -= state[1]
        return value if _state(file) == state else None


def _state(file: Path) -> _State | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
