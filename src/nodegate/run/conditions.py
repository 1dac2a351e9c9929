"""The conditions of a run, as stored in run.json: enough to judge it again without the inventory."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nodegate.errors import UsageError
from nodegate.inventory import patterns
from nodegate.inventory.names import check_node_name
from nodegate.node import Connection, Node
from nodegate.profile import Profile
from nodegate.records.manifest import MANIFEST
from nodegate.run.gaps import GAPS
from nodegate.subjects.order import ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.records.run import Run
    from nodegate.records.run_folder import RunFolder
    from nodegate.run.settings import Settings

SCHEMA = "nodegate.run/1"
RUN_FILE = "run.json"
LIBRARIES = ("pytest", "pytest-xdist", "paramiko", "nvidia-ml-py", "jinja2", "pandas", "scipy", "pyyaml")

_T = TypeVar("_T")


def versions() -> dict[str, str]:
    """Python and the libraries that a verdict may depend on."""
    here = {each.name.lower(): each.version for each in metadata.distributions() if each.name}
    return {"python": platform.python_version(), **{name: here[name] for name in LIBRARIES if name in here}}


def user() -> str:
    """The user and the machine of the run."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def command_line(arguments: Sequence[str]) -> str:
    """The command, ready to be typed again."""
    return shlex.join(["pytest", *arguments])


def run_to_json(run: Run, nodes: Iterable[Node], settings: Settings, others: Iterable[str] = ()) -> dict[str, object]:
    """run.json: the conditions, the nodes, and what was asked for, so that --resume can ask for it again."""
    return {
        "schema": SCHEMA,
        "manifest": MANIFEST,
        **asdict(run),
        "asked": {
            "inventory": [_from_anywhere(each) for each in settings.inventory],
            "nodes": settings.nodes,
            "passive": settings.passive,
            "burn": settings.burn,
            "hang_after": settings.hang_after,
            "pairs": settings.pairs,
            "tools": _from_anywhere(str(settings.tools)) if settings.tools else "",
            "policy": _from_anywhere(settings.policy) if settings.policy else "",
        },
        **_nodes_to_json(nodes),
        "other_names": list(others),
    }


def _from_anywhere(source: str) -> str:
    """A value of --inventory, readable from another working folder too."""
    return str(Path(source).absolute()) if os.path.lexists(source) else source


def _nodes_to_json(nodes: Iterable[Node]) -> dict[str, object]:
    """The nodes without access data: no user, no key, no SSH argument is stored.

    What was ordered of all nodes of a group is written once: the serial numbers of an order are thousands.
    """
    orders: list[object] = []
    listed = [
        {
            "name": node.name,
            "address": node.address,
            "port": node.connection.port,
            "transport": node.connection.transport,
            "groups": list(node.groups),
            "expected": {name: value for name, value in node.expected.items() if name != ORDER},
            "origin": node.origin,
            **({"gaps_origin": origin} if (origin := node.origins.get(GAPS)) else {}),
            **_order_to_json(node, orders),
        }
        for node in nodes
    ]
    return {"nodes": listed, "orders": orders}


def _order_to_json(node: Node, orders: list[object]) -> dict[str, object]:
    """What was ordered of a node, as its place among all orders; equal ones share it."""
    if ORDER not in node.expected:
        return {}
    order = node.expected[ORDER]
    place = next((place for place, known in enumerate(orders) if known is order or known == order), len(orders))
    if place == len(orders):
        orders.append(order)
    return {"order": place, "order_origin": node.origins.get(ORDER, "")}


@dataclass(frozen=True)
class Earlier:
    """An earlier run from its run.json; everything but `file` and `nodes` is what was requested then."""

    file: str
    profile: Profile
    inventory: tuple[str, ...]
    pattern: str
    nodes: tuple[Node, ...]
    passive: bool = False
    burn: str = ""
    hang_after: str = ""
    pairs: str = ""
    tools: Path | None = None
    policy: str = ""
    started_epoch_s: float = 0.0
    has_manifest: bool = False  # whether it wrote one
    others: tuple[str, ...] = ()  # names of its inventory that it did not measure
    evidence: str = ""  # where its evidence is from, if it is not its own

    def select(self, pattern: str) -> tuple[Node, ...]:
        """The nodes of a --nodes pattern; all for an empty one.

        Raises:
            UsageError: nothing matches.
        """
        if not pattern:
            return self.nodes
        names = tuple(node.name for node in self.nodes)
        groups: dict[str, list[str]] = {}
        for node in self.nodes:
            for group in dict.fromkeys(node.groups):
                groups.setdefault(group, []).append(node.name)
        known = {"all": names, **{group: tuple(members) for group, members in groups.items()}}
        chosen = set(patterns.select(pattern, names, known))
        return tuple(node for node in self.nodes if node.name in chosen)


def read_earlier(folder: RunFolder) -> Earlier:
    """An earlier run, with its nodes ready to be judged from its evidence.

    Raises:
        UsageError: its run.json was not written by nodegate.
    """
    run, file = folder.read_json(RUN_FILE), str(folder.path / RUN_FILE)
    entries, asked = _typed(run, "nodes", list, file), run.get("asked", {})
    asked = asked if isinstance(asked, dict) else {}
    inventory = asked.get("inventory", [])
    words = [asked.get(name, "") for name in ("nodes", "burn", "hang_after", "pairs", "tools", "policy")]
    pattern, burn, hang_after, pairs, tools, policy = words
    if not _texts(words) or not _texts(inventory) or pairs not in {"", "few", "all"} or "\0" in tools:
        raise UsageError("`asked` was not written by nodegate", file=file)
    profile = _typed(run, "profile", str, file)
    if profile not in set(Profile):
        raise UsageError(f"{profile[:40]!r} is not a profile", file=file)
    orders = _typed(run, "orders", list, file, [])
    nodes = {node.name: node for node in (_node(entry, orders, file, folder.path / "evidence") for entry in entries)}
    if len(nodes) < len(entries):
        raise UsageError("names a node twice", file=file)
    passive, started = asked.get("passive") is True, float(_typed(run, "started_epoch_s", float, file, 0.0))
    return Earlier(
        file,
        Profile(profile),
        tuple(inventory),
        pattern,
        tuple(nodes.values()),
        passive=passive,
        burn=burn,
        hang_after=hang_after,
        pairs=pairs,
        tools=Path(tools) if tools else None,
        policy=policy,
        started_epoch_s=started,
        has_manifest="manifest" in run,
        others=tuple(each for each in _typed(run, "other_names", list, file, []) if isinstance(each, str)),
        evidence=_typed(run, "evidence", str, file, ""),
    )


def _node(entry: object, orders: list[object], file: str, recordings: Path) -> Node:
    if not isinstance(entry, dict):
        raise UsageError("a node is not an object", file=file)
    name, groups = _typed(entry, "name", str, file), entry.get("groups", [])
    if not _texts(groups):
        raise UsageError("`groups` of a node is not a list of names", file=file)
    try:
        check_node_name(name)
    except UsageError as said:
        raise UsageError(said.message, file=file) from None
    return Node(
        name=name,
        connection=Connection(
            transport="replay",
            address=_typed(entry, "address", str, file, ""),
            port=_port(entry.get("port"), file),
            recordings=str(recordings),
        ),
        groups=tuple(groups),
        expected={**_typed(entry, "expected", dict, file, {}), **_order(entry, orders, file)},
        origin=_typed(entry, "origin", str, file, ""),
        origins={
            ORDER: _typed(entry, "order_origin", str, file, ""),
            GAPS: _typed(entry, "gaps_origin", str, file, ""),
        },
    )


def _order(entry: Mapping[str, object], orders: list[object], file: str) -> dict[str, object]:
    place = _typed(entry, "order", int, file, -1)
    if place >= len(orders):
        raise UsageError("`order` of a node leads to none", file=file)
    return {ORDER: orders[place]} if place >= 0 else {}


def _port(value: object, file: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError("`port` of a node is not a number", file=file)
    return value


def _typed(entry: Mapping[str, object], key: str, kind: type[_T], file: str, default: _T | None = None) -> _T:
    value = entry.get(key, default)
    if not isinstance(value, kind):
        raise UsageError(f"`{key}` is missing or has the wrong type", file=file, hint="this is not a run of nodegate")
    return value


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
