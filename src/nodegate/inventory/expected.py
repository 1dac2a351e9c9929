"""What a node should have according to the inventory: its `nodegate_*` variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.inventory.variables import Variables

PREFIX = "nodegate_"
_NAME = re.compile(r"\w{1,100}")
ORDER = "nodegate_expect"  # nodegate.subjects.order reads it
GAPS = "nodegate_gaps"  # nodegate.run.gaps reads it
CONNECTION = frozenset({"nodegate_recordings", "nodegate_host_keys"})


def expected(variables: Variables) -> Mapping[str, object]:
    """The `nodegate_*` variables without their prefix; one that is empty (null) is left out.

    A value is text, a number, true or false, a list of those, or a flat mapping of those; of the order a
    mapping of those or of lists of those, of signed gaps a mapping of mappings.

    Raises:
        UsageError: a value is nested deeper than that, or cannot be resolved.
    """
    found: dict[str, object] = {}
    for name in variables.values:
        if not name.startswith(PREFIX) or name in CONNECTION:
            continue
        value = variables.get(name)
        if value is None:
            continue
        if not _NAME.fullmatch(name):
            raise variables.wrong(name, "not a valid variable name", "use letters, digits and '_'")
        items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else [value]
        if name == ORDER and isinstance(value, dict):
            items = [one for item in items for one in (item if isinstance(item, list) else [item])]
        if name == GAPS and isinstance(value, dict):
            items = [one for item in items for one in (item.values() if isinstance(item, dict) else [item])]
        if not all(isinstance(item, (str, int, float, bool)) for item in items):
            raise variables.wrong(name, "must be a single value, a list of values, or a flat mapping of values")
        found[name.removeprefix(PREFIX)] = value
    return found
