"""A node as the inventory describes it: how to reach it and what hardware it should have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from nodegate.errors import UsageError
from nodegate.node_settings import table
from nodegate.node_settings.table import NodeSettings

HostKeyMode = Literal["strict", "accept-new", "off"]
TransportName = str  # ssh, ssh-binary, local, replay, command, or the name of an engine (nodegate.engines)


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
    host_keys: HostKeyMode | None = None
    lock: str = "/run/lock/nodegate.lock"  # on the node: two runs never measure it at the same time
    recordings: str = ""  # transport `replay`: the folder that holds <node>/facts.json
    command: tuple[str, ...] = ()  # transport `command`: the words before those of the program on the node
    lease_s: float = 0.0  # what runs there ends after so many seconds of silence; 0: with the connection alone


@dataclass(frozen=True)
class Node:
    """One machine of the inventory.

    `expected` has every `nodegate_*` variable without its prefix (platform, gpus, nics, rack, serial, gsp, ...), as
    in the inventory, for run.json; `settings` are the same, read. `groups` are all groups the node is in, sorted,
    without `all` and `ungrouped`. `origin` is the `file:line` that names the node, `origins` those that set variables.
    """

    name: str
    connection: Connection = field(default_factory=Connection)
    groups: tuple[str, ...] = ()
    expected: Mapping[str, object] = field(default_factory=dict)
    origin: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> NodeSettings:
        """What the inventory says of this node, checked and typed; an inventory reads them with its nodes.

        Raises:
            UsageError: a variable has a value that is not of its kind, with the file and line that set it.
        """
        return table.read(self.expected, lambda name, message, hint: self.wrong(message, hint, variable=name))

    def place(self, variable: str = "") -> tuple[str, int]:
        """The file and the line that set a variable, else of those that name the node; line 0 if it has none."""
        origin = self.origins.get(variable) or self.origin
        file, _, line = origin.rpartition(":")
        return (file, int(line)) if line.isdigit() else (origin, 0)

    def wrong(self, message: str, hint: str = "", *, variable: str = "") -> UsageError:
        """The error for a wrong variable of this node (its name without the prefix), with its place."""
        file, line = self.place(variable)
        return UsageError(f"{self.name}: {message}", file=file, line=line, hint=hint)

    @property
    def address(self) -> str:
        """The name or IP address that a connection goes to."""
        return self.connection.address or self.name

    @property
    def platform(self) -> str:
        """The platform that the inventory names, or empty: then it is recognised from the hardware."""
        return self.settings.platform

    @property
    def rack(self) -> str:
        """The rack that the inventory names, or empty."""
        return self.settings.rack
