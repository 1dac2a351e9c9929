"""What a hook knows of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodegate.exit_codes import Exit


@dataclass(frozen=True)
class Answer:
    """The word of a bootcheck; `age_s` is how old it is where it was kept, else None."""

    exit: Exit
    line: str
    age_s: float | None = None

    def shown(self) -> str:
        """The line, with its age."""
        return self.line if self.age_s is None else f"{self.line} (seen {self.age_s:.0f} s ago)"
