"""What a run has just written, for who reads it next."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_FILES, _MOST_BYTES = 8, 1 << 20  # as objects they take six times as much memory


class AtHand:
    """A few of the files that nobody has read yet. Each is taken once, from any thread."""

    def __init__(self) -> None:
        self._written: dict[Path, Mapping[str, object]] = {}
        self._guard = threading.Lock()

    def put(self, file: Path, value: Mapping[str, object], size: int) -> None:
        """What a file says now, of so many bytes; not kept where there is no place for it."""
        with self._guard:
            self._written.pop(file, None)
            if size <= _MOST_BYTES and len(self._written) < _MOST_FILES:
                self._written[file] = value

    def take(self, file: Path) -> Mapping[str, object] | None:
        """What a file says, if it is at hand."""
        with self._guard:
            return self._written.pop(file, None)
