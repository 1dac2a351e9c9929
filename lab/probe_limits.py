"""More time for the probe's single readings, on machines that are slow, or stand still for some seconds.

A node that does not answer `statvfs` within 2 s has a hung mount. One of many nodes that share two processors may only
have had none of them for so long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES = 8
# Module of the probe -> what stands there, and what takes its place.
_CHANGES = {
    "commands": ("Deadline(self.started, limit_s,", f"Deadline(self.started, {TIMES} * limit_s,"),
    "mounts": ("USAGE_LIMIT_S = 2.0", f"USAGE_LIMIT_S = {TIMES * 2.0}"),
    "nvml": ("SLOW_S = 5.0", f"SLOW_S = {TIMES * 5.0}"),
}


def patient(modules: Mapping[str, str]) -> dict[str, str]:
    """The sources of the probe by their names, with eight times the time for each reading."""
    return {name: replaced(text, *_CHANGES[name]) if name in _CHANGES else text for name, text in modules.items()}


def replaced(text: str, old: str, new: str) -> str:
    """A source with other words in one place.

    Raises:
        RuntimeError: it does not have the old ones.
    """
    if old not in text:
        raise RuntimeError(f"nodegate has no {old!r} any more where the lab looks for it")
    return text.replace(old, new)
