"""The words in which the knowledge tables classify what a log says, and a signature: one kind of line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Text:
    """One sentence for people, in English and in Chinese."""

    en: str
    zh: str

    @classmethod
    def read(cls, row: Mapping[str, str], column: str) -> Text:
        """The sentence in two columns of a table: this one, and its Chinese beside it."""
        return cls(row[column], row[f"{column}_zh"])

    def of(self, language: str) -> str:
        """The sentence in this language."""
        return self.zh if language == "zh" else self.en

    def with_detail(self, detail: Text | str) -> Text:
        """The sentence, a colon, and what is said of it."""
        detail = Text(detail, detail) if isinstance(detail, str) else detail
        return Text(f"{self.en}: {detail.en}", f"{self.zh}：{detail.zh}")  # noqa: RUF001


class Side(str, Enum):
    """Where a line comes from."""

    KERNEL = "kernel"  # the kernel log of a node
    USER = "user"  # what a job, a launcher or a daemon prints


class Role(str, Enum):
    """Which role a line can have in a failure."""

    PRIMARY = "primary"  # can be the first error
    EITHER = "either"  # the first error if nothing earlier explains it
    CONSEQUENCE = "consequence"  # follows another error
    CONTEXT = "context"  # adds detail to another line


class Cause(str, Enum):
    """What is to blame when the line is the first error."""

    HARDWARE = "hardware"
    FABRIC = "fabric"  # NVLink, NVSwitch, NICs, cables, switches
    STORAGE = "storage"
    HOST = "host"  # the node's system: memory, limits, driver
    ENVIRONMENT = "environment"  # image, versions, settings, launcher, the start of a container
    PROGRAM = "program"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Signature:
    """One kind of line."""

    id: str
    side: Side
    role: Role
    cause: Cause
    pattern: re.Pattern[str]
    meaning: Text
    action: Text
    failure_modes: tuple[str, ...]
    example: str  # a line for which this signature is the first match
    holds: tuple[str, ...]  # strings of the pattern, one of which is in every line that it matches

    def may_fit(self, text: str) -> bool:
        """Whether the pattern can match a line of this text: a cheap search before that for the pattern."""
        return any(held in text for held in self.holds)


# Signatures that know a line by its looks alone.
UNKNOWN_LINES = frozenset(("unknown_error", "error_line", "cpp_exception"))
