"""The conditions of a run, as run.json keeps them: enough to judge it again without the inventory."""

from __future__ import annotations

import getpass
import os
import platform
import shlex
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.node import Connection, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nodegate.report.model import Run

SCHEMA = "nodegate.run/1"
LIBRARIES = ("pytest", "pytest-xdist", "paramiko", "nvidia-ml-py", "jinja2", "pandas", "pyyaml")


def suite_version() -> str:
    """The installed version of nodegate, or "unknown" when it runs from an uninstalled checkout."""
    try:
        return metadata.version("nodegate")
    except metadata.PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Python and the libraries that a verdict may depend on."""
    here = {each.name.lower(): each.version for each in metadata.distributions() if each.name}
    return {"python": platform.python_version(), **{name: here[name] for name in LIBRARIES if name in here}}


def user() -> str:
    """Who makes the run."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def command_line(arguments: Sequence[str]) -> str:
    """The command as it can be typed again."""
    return shlex.join(["pytest", *arguments])


def run_to_json(run: Run, nodes: Iterable[Node]) -> dict[str, object]:
    """run.json: the conditions, and the nodes."""
    return {"schema": SCHEMA, **asdict(run), "nodes": _nodes_to_json(nodes)}


def _nodes_to_json(nodes: Iterable[Node]) -> list[dict[str, object]]:
    """The nodes without the ways in: no user, no key, no SSH argument is kept."""
    return [
        {
            "name": node.name,
            "address": node.address,
            "transport": node.connection.transport,
            "groups": list(node.groups),
            "expected": dict(node.expected),
            "origin": node.origin,
        }
        for node in nodes
    ]


def nodes_from_json(run: Mapping[str, object], *, file: str, recordings: Path) -> list[Node]:
    """The nodes of an earlier run, to be judged from its evidence.

    Raises:
        UsageError: run.json lists no nodes.
    """
    entries = run.get("nodes")
    if not isinstance(entries, list):
        raise UsageError("lists no nodes", file=file, hint="this is no run of nodegate")
    nodes = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise UsageError("a node of this run has no name", file=file)
        name = entry["name"]
        if not name or "/" in name or name.startswith("."):
            raise UsageError(f"{name[:40]!r} is no node name", file=file)
        nodes.append(
            Node(
                name=name,
                connection=Connection(
                    transport="replay", address=str(entry.get("address", "")), recordings=str(recordings)
                ),
                groups=tuple(map(str, entry.get("groups", ()))),
                expected=dict(entry.get("expected", {})),
                origin=str(entry.get("origin", "")),
            )
        )
    return nodes
