"""Versions compared part by part: 5.15 is newer than 5.5, whatever the letters say."""

from __future__ import annotations

import re

_LEADING = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,4}")


def parts(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: "5.15.0-119-generic" gives (5, 15, 0); none gives ()."""
    match = _LEADING.match(version.strip().lstrip("v"))
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def older(version: str, than: str) -> bool:
    """Whether a version is older; missing parts count as zero."""
    left, right = parts(version), parts(than)
    length = max(len(left), len(right))
    return left + (0,) * (length - len(left)) < right + (0,) * (length - len(right))
