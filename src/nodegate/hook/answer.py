"""What a hook knows about its node."""

from dataclasses import dataclass

from nodegate.exit_codes import Exit


@dataclass(frozen=True)
class Answer:
    """The result of a bootcheck; `age_s` is its age if it was cached, else None.

    `causes` are the ids of its causes, `demands` is the hash of what the site asks of the node.
    """

    exit: Exit
    line: str
    age_s: float | None = None
    causes: tuple[str, ...] = ()
    demands: str = ""

    def shown(self) -> str:
        """The line, with its age."""
        return self.line if self.age_s is None else f"{self.line} (checked {self.age_s:.0f} s ago)"
