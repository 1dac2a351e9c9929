"""What a node should have according to the inventory: its `nodegate_*` variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.files.strict_yaml import shown
from nodegate.text import names, port_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.inventory.variables import Variables

PREFIX = "nodegate_"
_NAME = re.compile(r"\w{1,100}")
ORDER = "nodegate_expect"  # nodegate.subjects.order reads it
GAPS = "nodegate_gaps"  # nodegate.run.gaps reads it
PORTS = "nodegate_ports"  # the check host.ports reads it
RDMA_PORT, LAST_RDMA_PORT = "nodegate_rdma_port", 64_999  # nodegate.measure.rdma.rdma_node reads it
CONNECTION = frozenset({"nodegate_recordings", "nodegate_host_keys"})


def expected(variables: Variables) -> Mapping[str, object]:
    """The `nodegate_*` variables without their prefix; one that is empty (null) is left out.

    A value is text, a number, true or false, a list of those, or a flat mapping of those; of the order a
    mapping of those or of lists of those, of signed gaps a mapping of mappings.

    Raises:
        UsageError: a value is nested deeper than that, or cannot be resolved; or a port is none.
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
        if name == PORTS:
            _refuse_what_is_no_port(variables, value)
        if name == RDMA_PORT and not 1 <= (port_number(str(value)) or 0) <= LAST_RDMA_PORT:
            hint = f"give a number from 1 to {LAST_RDMA_PORT}, for as many follow it as there are rails"
            raise variables.wrong(RDMA_PORT, f"{shown(str(value))} is not the first of some TCP ports", hint)
        found[name.removeprefix(PREFIX)] = value
    return found


def _refuse_what_is_no_port(variables: Variables, value: object) -> None:
    """A port that no program can listen on would always be free."""
    hint = "give numbers from 1 to 65535, 29500 for example"
    ports = names(value)
    wrong = next((port for port in ports if port_number(port) is None), "")
    if wrong:
        raise variables.wrong(PORTS, f"{shown(wrong)} is not a TCP port", hint)
    if not ports and value not in ("", []):
        raise variables.wrong(PORTS, "must be a TCP port or a list of them", hint)
