"""Plain lists of nodes: one `user@host:port` or Slurm hostlist per line, or the same with commas in one argument."""

import re
from ipaddress import ip_address

from nodegate.errors import UsageError
from nodegate.files.hints import shown
from nodegate.inventory import ranges
from nodegate.inventory.names import NUMBER, parse_entry
from nodegate.inventory.tree import UNGROUPED, Layer, Tree

ONE_A_LINE = "write one node per line, as `sinfo -h -N -o %N | sort -u` prints them"
OF_SLURM = re.compile(r"(?:(?:Node|Partition|Cluster)Name|Slurm\w+)=", re.IGNORECASE)  # of slurm.conf and scontrol
_HEADINGS = frozenset({"NODELIST", "HOSTNAMES", "NAME"})  # of sinfo, squeue and kubectl
# What sinfo, pbsnodes and kubectl print beside a node, without the signs that Slurm sets behind it.
_STATES = (
    "alloc allocated allocating blkd blocked boot busy cloud comp completing down drain drained draining drng err error"
    " fail failing failg free future futr idle inval invalid maint maintenance mix mixed no_respond notready npc"
    " offline online perfctrs planned plnd pow_dn pow_up power_down power_up powered_down powering_down powering_up"
    " ready reboot reboot_issued rebooting reserved resv schedulingdisabled unk unkn unknown unreachable up"
)
_WORDS = frozenset(_STATES.split())
_SIGNS = "*~#!%$@^-"


def read(text: str, name: str, folder: str, tree: Tree, *, lines: bool = True) -> None:
    """Add the nodes of a plain list to the tree; `name` is its name in messages, `lines` whether it has lines.

    Raises:
        UsageError: a name is not allowed, or a line is one of a table, with file and line.
    """
    group = tree.groups[UNGROUPED]
    for number, row in enumerate(text.splitlines(), start=1):
        line = number if lines else 0
        words = ranges.split_outside_brackets(row.partition("#")[0], ", \t")
        if why := _no_list(words):
            raise UsageError(f"{shown(' '.join(words))}: {why}", file=name, line=line, hint=ONE_A_LINE)
        for entry in words:
            try:
                written = parse_entry(entry)
            except UsageError as problem:
                raise UsageError(problem.message, file=name, line=line, hint=problem.hint) from None
            tree.add_hosts(written, group, Layer({}, name, folder, line))


def _no_list(words: list[str]) -> str:
    """Why these words are a row of a table, not a list of nodes; empty if they may be a list."""
    if words and words[0] in _HEADINGS:
        return "this is a heading"
    if number := next((word for word in words if NUMBER.fullmatch(word)), ""):
        return f"{number} is a number, not a node"
    if state := next((word for word in words[1:] if _is_state(word)), ""):
        return f"{shown(state)} is the state of a node"
    addresses = [word for word in words if _is_address(word)]
    return "an address and names of one node" if addresses and len(addresses) < len(words) else ""


def _is_state(word: str) -> bool:
    return all(part.rstrip(_SIGNS) in _WORDS for part in word.lower().split("+"))


def _is_address(word: str) -> bool:
    try:
        return bool(ip_address(word))
    except ValueError:
        return False
