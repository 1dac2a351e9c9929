"""Slurm as an engine; its nodes as an inventory: `scontrol show node -o`, the form that is the same in all releases."""

from collections.abc import Iterable, Mapping, Sequence

from nodegate.engines.engine import Engine, Obstacle, Reach
from nodegate.errors import UsageError
from nodegate.inventory.hostlist import expand
from nodegate.inventory.names import GROUP_NAME
from nodegate.node import Node
from nodegate.scheduler.programs import NoAnswer, answer, fields

LIMIT_S = 60.0
_NOT_THERE = "FUTURE"  # a node that is planned
_NONE = frozenset({"", "(null)"})
_RESERVED = frozenset({"all", "ungrouped"})


def _scontrol(what: str) -> str:
    return answer("scontrol", "-o", "show", what, limit_s=LIMIT_S)


def _listed(row: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(each for each in row.get(key, "").split(",") if each not in _NONE)


def _places(rows: Iterable[Mapping[str, str]], key: str) -> dict[str, tuple[str, ...]]:
    """The blocks or the switches of the lowest level that each node is below."""
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if key in row and row.get("Level", "0") == "0" and row.get("Nodes", "") not in _NONE:
            for node in expand(row["Nodes"]):
                found[node] = (*found.get(node, ()), row[key])
    return found


def _variables(name: str, racks: Sequence[str], leaves: Sequence[str]) -> dict[str, object]:
    own: dict[str, object] = {"ansible_connection": "slurm", "nodegate_slurm_name": name}
    if len(racks) == 1:
        own["nodegate_rack"] = racks[0]
    return {**own, "nodegate_leaf": list(leaves)} if leaves else own


def _members(kind: Mapping[str, Sequence[str]], chosen: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for node in chosen:
        for name in kind.get(node, ()):
            if GROUP_NAME.fullmatch(name) and name not in _RESERVED:
                found.setdefault(name, {"hosts": []})["hosts"].append(node)
    return found


class Slurm:
    """See `Engine`."""

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """See `Engine`: the nodes of these partitions, all of Slurm's if none is named."""
        where = f"slurm:[{','.join(asked)}]"
        try:
            rows, switches = ([fields(line) for line in _scontrol(what).splitlines()] for what in ("node", "topology"))
        except NoAnswer as said:
            hint = "run nodegate where Slurm's commands work, or name the nodes in a file"
            raise UsageError(str(said), file=where, hint=hint) from None
        nodes = {row["NodeName"]: row for row in rows if "NodeName" in row and _NOT_THERE not in row.get("State", "")}
        partitions = {name: _listed(row, "Partitions") for name, row in nodes.items()}
        known = {each for found in partitions.values() for each in found}
        if unknown := [each for each in asked if each not in known]:
            hint = f"it has: {', '.join(sorted(known)[:20])}"
            raise UsageError(f"Slurm has no nodes in partition {unknown[0]}", file=where, hint=hint)
        chosen = [name for name, own in partitions.items() if not asked or set(own) & set(asked)]
        racks, leaves = _places(switches, "BlockName"), _places(switches, "SwitchName")
        features = {name: _listed(nodes[name], "AvailableFeatures") for name in chosen}
        hosts = {name: _variables(name, racks.get(name, ()), leaves.get(name, ())) for name in chosen}
        groups: dict[str, dict[str, list[str]]] = {}
        for kind in (partitions, racks, leaves, features):  # of two kinds with one name the first is the group
            groups = _members(kind, chosen) | groups
        return {"_meta": {"hostvars": hosts}, "all": {"hosts": chosen}, **groups}

    def reach(self, nodes: Sequence[Node]) -> Reach:
        """By jobs of our own."""
        from nodegate.engines.slurm.reach import SlurmReach  # noqa: PLC0415 - an inventory needs none

        return SlurmReach.to(nodes)

    def obstacles(self, nodes: Sequence[Node]) -> Iterable[Obstacle]:
        """Settings, partitions, rights."""
        from nodegate.engines.slurm.ready import obstacles  # noqa: PLC0415 - for doctor

        return obstacles(nodes)

    def holder(self, nodes: Sequence[Node]) -> None:
        """None: the jobs that lend them hold them."""


ENGINE: Engine = Slurm()
