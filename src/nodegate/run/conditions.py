"""The conditions of a run, as stored in run.json: enough to judge it again without the inventory."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from nodegate.errors import UsageError
from nodegate.files.strict_json import loads
from nodegate.inventory import patterns
from nodegate.inventory.names import check_node_name
from nodegate.judge.waivers import GAPS
from nodegate.node import Connection, Node
from nodegate.notices.target import hidden
from nodegate.profile import Profile
from nodegate.records.manifest import MANIFEST
from nodegate.records.run import Run, shared
from nodegate.records.run_folder import RunFolder
from nodegate.records.store import converted, from_bytes, in_lines, in_one_line, to_bytes
from nodegate.run.settings import Settings
from nodegate.subjects.order import ORDER

SCHEMA = "nodegate.run/2"
RUN_FILE = "run.json"
LIBRARIES = ("pytest", "pytest-xdist", "paramiko", "nvidia-ml-py", "jinja2", "msgspec", "pandas", "scipy", "pyyaml")
_NO_RUN = "this is not a run of nodegate, or it was changed"


def versions() -> dict[str, str]:
    """Python and the libraries that a verdict may depend on."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def user() -> str:
    """The user and the machine of the run."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def command_line(arguments: Sequence[str]) -> str:
    """The command, ready to be typed again but for the secrets of --notice."""
    return shlex.join(["pytest", *hidden(arguments)])


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, so that --resume can ask for it again."""

    inventory: tuple[str, ...] = ()
    nodes: str = ""
    passive: bool = False
    burn: str = ""
    hang_after: str = ""
    pairs: Literal["", "few", "all"] = ""
    tools: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node without access data: no user, no key, no SSH argument is stored.

    `order` is the place of what was ordered of it among all orders; -1: nothing.
    """

    name: str
    address: str = ""
    port: int | None = None
    transport: str = ""
    groups: tuple[str, ...] = ()
    expected: dict[str, Any] = field(default_factory=dict)
    origin: str = ""
    gaps_origin: str = ""
    order: int = -1
    order_origin: str = ""


@dataclass(frozen=True, slots=True)
class RunFile(Run):
    """run.json: the conditions of a run, its nodes, and what was asked for.

    Orders are written once: the serial numbers of one are thousands. `other_names` are those of the inventory that it
    did not measure. What is known only at the end of the run is empty before.
    """

    schema: str = ""
    manifest: str = ""
    asked: Asked = Asked()
    nodes: tuple[NodeEntry, ...] = ()
    orders: tuple[Any, ...] = ()
    other_names: tuple[str, ...] = ()


def run_file(run: Run, nodes: Iterable[Node], settings: Settings, others: Iterable[str] = ()) -> RunFile:
    """The conditions of a run that begins."""
    orders: list[object] = []
    asked = Asked(
        tuple(_from_anywhere(each) for each in settings.inventory),
        settings.nodes,
        settings.passive,
        settings.burn,
        settings.hang_after,
        settings.pairs,  # type: ignore[arg-type]
        _from_anywhere(str(settings.tools)) if settings.tools else "",
        _from_anywhere(settings.policy) if settings.policy else "",
    )
    return RunFile(
        **shared(run, Run),
        schema=SCHEMA,
        manifest=MANIFEST,
        asked=asked,
        nodes=tuple(_entry(node, orders) for node in nodes),
        orders=tuple(orders),
        other_names=tuple(others),
    )


def write(folder: RunFolder, found: RunFile) -> None:
    """Write run.json.

    Raises:
        UsageError: it cannot be written.
    """
    folder.write_file(RUN_FILE, in_lines(to_bytes(found)))


def end(folder: RunFolder, run: Run) -> None:
    """Write run.json with what is known at the end of the run.

    Raises:
        UsageError: it was changed, or cannot be written.
    """
    write(folder, replace(read(folder), **shared(run, Run)))


def _from_anywhere(source: str) -> str:
    """A value of --inventory, readable from another working folder too."""
    return str(Path(source).absolute()) if os.path.lexists(source) else source


def _entry(node: Node, orders: list[object]) -> NodeEntry:
    """A node for run.json; what was ordered of it goes to the orders, once."""
    place, order = -1, node.expected.get(ORDER)
    if ORDER in node.expected:
        place = next((place for place, known in enumerate(orders) if known is order or known == order), len(orders))
        orders += [order] if place == len(orders) else []
    return NodeEntry(
        node.name,
        node.address,
        node.connection.port,
        node.connection.transport,
        node.groups,
        {name: value for name, value in node.expected.items() if name != ORDER},
        node.origin,
        node.origins.get(GAPS, ""),
        place,
        node.origins.get(ORDER, "") if place >= 0 else "",
    )


@dataclass(frozen=True)
class Earlier:
    """An earlier run from its run.json (`file`), with its nodes ready to be judged from its evidence."""

    file: str
    run: RunFile
    nodes: tuple[Node, ...]

    @property
    def asked(self) -> Asked:
        """What was requested then."""
        return self.run.asked

    @property
    def profile(self) -> Profile:
        """Its profile."""
        return Profile(self.run.profile)

    @property
    def tools(self) -> Path | None:
        """The folder of its tools."""
        return Path(self.asked.tools) if self.asked.tools else None

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


def read(folder: RunFolder) -> RunFile:
    """The run.json of a run folder.

    Raises:
        UsageError: it was not written by nodegate.
    """
    raw, file = folder.read_file(RUN_FILE), str(folder.path / RUN_FILE)
    try:
        value = loads(raw)  # the releases before 0.3 wrote other spaces, and had other keys
        if isinstance(value, dict) and value.get("schema") == SCHEMA:
            return from_bytes(RunFile, in_one_line(raw), len(raw))
        return converted(RunFile, value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not as nodegate writes it: {error}", file=file, hint=_NO_RUN) from error


def read_earlier(folder: RunFolder) -> Earlier:
    """An earlier run, with its nodes ready to be judged from its evidence.

    Raises:
        UsageError: its run.json was not written by nodegate.
    """
    run, file = read(folder), str(folder.path / RUN_FILE)
    if run.profile not in set(Profile) or "\0" in run.asked.tools:
        raise UsageError(
            f"{run.profile[:40]!r} is not a profile, or the tools are not a folder", file=file, hint=_NO_RUN
        )
    nodes = {entry.name: _node(entry, run.orders, file, folder.path / "evidence") for entry in run.nodes}
    if len(nodes) < len(run.nodes):
        raise UsageError("names a node twice", file=file)
    return Earlier(file, run, tuple(nodes.values()))


def _node(entry: NodeEntry, orders: tuple[Any, ...], file: str, recordings: Path) -> Node:
    try:
        check_node_name(entry.name)
    except UsageError as said:
        raise UsageError(said.message, file=file) from None
    if entry.order >= len(orders):
        raise UsageError("`order` of a node leads to none", file=file)
    connection = Connection(transport="replay", address=entry.address, port=entry.port, recordings=str(recordings))
    order = {ORDER: orders[entry.order]} if entry.order >= 0 else {}
    return Node(
        name=entry.name,
        connection=connection,
        groups=entry.groups,
        expected={**entry.expected, **order},
        origin=entry.origin,
        origins={ORDER: entry.order_origin, GAPS: entry.gaps_origin},
    )
