"""What a run has just written, for who reads it next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_BYTES = 4 << 20  # of all files together: as objects they take six times as much memory


class AtHand:
    """A few megabytes of files that nobody has read yet. Each is taken once, from any thread."""

    def __init__(self) -> None:
        self._written: dict[Path, tuple[Mapping[str, object], int]] = {}
        self._bytes = 0
        self._guard = threading.Lock()

    def put(self, file: Path, value: Mapping[str, object], size: int) -> None:
        """What a file says now, of so many bytes; not kept where there is no place for it."""
        self.take(file)
        with self._guard:
            if self._bytes + size <= _MOST_BYTES:
                self._written[file] = value, size
                self._bytes += size

    def take(self, file: Path) -> Mapping[str, object] | None:
        """What a file says, if it is at hand."""
        with self._guard:
            value, size = self._written.pop(file, (None, 0))
            self._bytes -= size
            return value
