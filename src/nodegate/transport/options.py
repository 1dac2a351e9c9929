"""Connection settings of the command line, the same for all nodes of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nodegate.transport.jump_hosts import JumpHosts

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How connections are made unless the inventory says otherwise.

    Args:
        host_keys: `strict` (only known host keys), `accept-new` (unknown ones are stored, changed ones are
            refused) or `off` (any). The node's own value wins.
        known_hosts: the project's own file, read before the user's; accepted keys are appended to it.
        ssh_config: read in place of ~/.ssh/config (`ssh -F`).
        jump_hosts: the connections to jump hosts, shared by all nodes behind them.
    """

    host_keys: Literal["strict", "accept-new", "off"] = "strict"
    known_hosts: Path | None = None
    ssh_config: Path | None = None
    jump_hosts: JumpHosts = field(default_factory=JumpHosts, compare=False, repr=False)
