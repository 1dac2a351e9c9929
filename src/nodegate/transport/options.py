"""Connection settings of the command line, the same for all nodes of a run."""

from dataclasses import dataclass, field
from pathlib import Path

from nodegate.node import HostKeyMode
from nodegate.transport.jump_hosts import JumpHosts
from nodegate.transport.turns import Turns


@dataclass(frozen=True)
class Options:
    """How connections are made unless the inventory says otherwise.

    Args:
        host_keys: `strict` (only known host keys), `accept-new` (unknown ones are stored, changed ones are
            refused) or `off` (any), if it was asked for. The node's own value wins over the last two, never over
            `strict`.
        known_hosts: the project's own file, read before the user's; accepted keys are appended to it.
        ssh_config: read in place of ~/.ssh/config (`ssh -F`).
        jump_hosts: the connections to jump hosts, shared by all nodes behind them.
        turns: how many connections may begin at once, where a server does not take all.
    """

    host_keys: HostKeyMode | None = None
    known_hosts: Path | None = None
    ssh_config: Path | None = None
    jump_hosts: JumpHosts = field(default_factory=JumpHosts, compare=False, repr=False)
    turns: Turns = field(default_factory=Turns, compare=False, repr=False)

    def host_key_mode(self, *own: HostKeyMode | None) -> HostKeyMode:
        """What to do about an unknown host key; `own` is what the node's own settings say, the first one wins."""
        if self.host_keys == "strict":
            return "strict"
        return next((mode for mode in own if mode), self.host_keys or "strict")
