"""What starts ranks on other nodes: what each launcher says of itself, and what a site sets for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from nodegate.transport.call import printable

if TYPE_CHECKING:
    from typing_extensions import Self

Said = Mapping[str, Sequence[str]]  # what a node said: some lines under each name

# $1: the launcher or nothing, $2: a program, $3: the node's address in the inventory.
_VERSION = r"""if [ -n "$1" ]; then
  "$1" --version 2>&1 </dev/null | sed -n '1s/^/launcher /p'
  printf 'path %s\n' "$(readlink -f "$1")"
fi
"""
_NODE = r"""printf 'host %s\n' "$(uname -n)"
printf 'program %s\n' "$(sha256sum <"$2" | cut -c1-12)"
library=$(ldd "$2" 2>/dev/null | sed -n 's/.*libnccl\.so[^ ]* => \([^ ]*\).*/\1/p' | head -n 1)
[ -n "$library" ] && printf 'nccl %s\n' "$(sha256sum <"$library" | cut -c1-12)"
ip -o addr show up 2>/dev/null | awk '$3 ~ /^inet/ {print "address", $2, $4}' | head -n 64
getent ahosts "$3" 2>/dev/null | awk '{print "means", $1}' | sort -u | head -n 8
printf '%s\n' "$SSH_CONNECTION" | awk 'NF == 4 {print "reached", $3}'
exit 0
"""
_LINE = re.compile(r"([a-z]{1,16})[ \t]+(.{0,300})")


@dataclass(frozen=True)
class LaunchSettings:
    """What a site sets for launches. `launcher` is empty if it does not name one: the first that the node has.

    `environment` is of the ranks. `words` are the site's own arguments, by launcher; `srun` has the partition and the
    like. `network` are the networks or interfaces over which the ranks of MPI meet; empty: those of the inventory's
    addresses.
    """

    launcher: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    srun: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    network: str = ""

    @property
    def said(self) -> str:
        """The settings of the ranks in one line, for the conditions of what is measured."""
        return " ".join(f"{name}={value}" for name, value in sorted(self.environment.items()))

    @property
    def key(self) -> tuple[object, ...]:
        """What nodes must share to be launched together."""
        more = (tuple(sorted(self.srun.items())), tuple(sorted(self.words.items())), self.network)
        return (self.launcher, self.said, *more)


class Launcher(Protocol):
    """A launcher that a node has. Each is a class in a file of its own, and a line in `LAUNCHERS`."""

    name: ClassVar[str]  # of its program, and in nodegate_launcher
    also: ClassVar[tuple[str, ...]]  # its other names in nodegate_launcher
    get: ClassVar[str]  # one line on how to get it
    look: ClassVar[str]  # shell: asks the launcher $1, and prints lines "word what it says"
    local_rank: ClassVar[str]  # the variable that says to a rank which it is on its node
    hosts_by_name: ClassVar[bool]  # it knows nodes by their names in the inventory, not by their addresses
    args: ClassVar[str]  # the variable with a site's own arguments, without nodegate_; empty: there is none
    own_options: ClassVar[tuple[str, ...]]  # which these must not contain: nodegate sets them
    own_letters: ClassVar[str]  # a pattern of the same as letters with a value behind them, -n8; empty: none
    refusals: ClassVar[tuple[tuple[str, str], ...]]  # (pattern, next step): what it prints if it cannot start a rank

    @classmethod
    def known(cls, path: str, said: Said, settings: LaunchSettings) -> Self:
        """The launcher of a node, by what the node said. Raises CannotMeasure: it cannot launch."""
        ...

    def start(self, hosts: Sequence[str], gpus: int, network: str, limit_s: float) -> tuple[str, ...]:
        """The words before the rank's own: one rank for each of `gpus` GPUs of each host, in this order."""
        ...

    def for_ranks(self, network: str) -> Mapping[str, str]:
        """The settings in a rank's environment."""
        ...


def look(launcher: type[Launcher] | None) -> str:
    """Shell that asks a node for its launcher, its program and its addresses."""
    return f"{_VERSION}{launcher.look}{_NODE}" if launcher else f"{_VERSION}{_NODE}"


def heard(text: bytes) -> Said:
    """What a node said of its launcher, its programs and its addresses."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for line in filter(None, (_LINE.fullmatch(printable(each, 320)) for each in text[:32768].splitlines())):
        said[line[1]].append(line[2].strip())
    return said


def first(said: Said, name: str) -> str:
    """The first line that a node said under a name; empty if it said none."""
    return next(iter(said.get(name, ())), "")
