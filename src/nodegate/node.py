"""A node as the inventory describes it: how to reach it and what hardware it should have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

TransportName = Literal["ssh", "ssh-binary", "local", "replay"]


@dataclass(frozen=True)
class Connection:
    """How a node is reached. `None` means: from the user's own SSH configuration, else the default.

    `ssh_args` are the arguments of ansible_ssh_args, ansible_ssh_common_args and ansible_ssh_extra_args, in that order.
    `host_keys` is `strict` (default), `accept-new` or `off` as asked for in the inventory or on the command line.
    """

    transport: TransportName = "ssh"
    address: str = ""  # the name or IP address to connect to; empty: the node's own name
    port: int | None = None
    user: str | None = None
    key_files: tuple[str, ...] = ()
    ssh_args: tuple[str, ...] = ()
    become: bool = False
    python: str = "python3"
    connect_timeout_s: float = 15.0
    retries: int = 3
    host_keys: Literal["strict", "accept-new", "off"] | None = None
    lock: str = "/run/lock/nodegate.lock"  # on the node: two runs never measure it at the same time
    recordings: str = ""  # transport `replay`: the folder that holds <node>/facts.json


@dataclass(frozen=True)
class Node:
    """One machine of the inventory.

    `expected` has every `nodegate_*` variable without its prefix (platform, gpus, nics, rack, serial, gsp, ...), as
    in the inventory: text, int, float, bool, a list or a flat mapping of those. `groups` are all groups the node
    is in, sorted, without `all` and `ungrouped`. `origin` is the `file:line` that names the node, `order_origin`
    the one that says what was ordered (`nodegate_expect`), `gaps_origin` the one that signs for gaps (`nodegate_gaps`).
    """

    name: str
    connection: Connection = field(default_factory=Connection)
    groups: tuple[str, ...] = ()
    expected: Mapping[str, object] = field(default_factory=dict)
    origin: str = ""
    order_origin: str = ""
    gaps_origin: str = ""

    def place(self, origin: str = "") -> tuple[str, int]:
        """The file and the line of an origin, of the node's own if it is empty; line 0 if it has none."""
        origin = origin or self.origin
        file, _, line = origin.rpartition(":")
        return (file, int(line)) if line.isdigit() else (origin, 0)

    def wrong(self, message: str, hint: str = "", *, origin: str = "") -> UsageError:
        """The error for a wrong variable of this node, with the place that names it."""
        file, line = self.place(origin)
        return UsageError(f"{self.name}: {message}", file=file, line=line, hint=hint)

    def mapping(self, name: str) -> dict[Any, Any] | None:
        """A variable that maps names to values, empty where it is not set; None if it is anything else.

        An INI inventory has text only: there it is JSON.
        """
        given = self.expected.get(name, {})
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return None
        return given if isinstance(given, dict) else None

    @property
    def address(self) -> str:
        """The name or IP address that a connection goes to."""
        return self.connection.address or self.name

    @property
    def platform(self) -> str:
        """The platform that the inventory names, or empty: then it is recognised from the hardware."""
        return str(self.expected.get("platform", ""))

    @property
    def rack(self) -> str:
        """The rack that the inventory names, or empty."""
        return str(self.expected.get("rack", ""))
