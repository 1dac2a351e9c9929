"""A file that the verdicts of a run depend on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """An inventory or baseline file: its name in messages, and the SHA-256 of its text."""

    path: str
    sha256: str
