"""A third engine, in one module: each folder of a place is a node, on which programs are processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from nodegate.engines.engine import Engine, Obstacle
from nodegate.scheduler.hold import Held
from nodegate.transport.command import CommandSession

LENT: list[str] = []  # what is lent now, by name


class FolderReach:
    """See `Reach`. A folder with a file `busy` is not lent."""

    def __init__(self, nodes):
        self.names = {node.name: node.name for node in nodes}

    def hold(self, nodes, _until, *, ended):
        assert not ended()
        refused = {name: "it is busy" for name in nodes if (_place() / name / "busy").exists()}
        LENT.extend(name for name in nodes if name not in refused)
        return Held(tuple(LENT), refused)

    def lost(self):
        return ()

    def give_back(self):
        LENT.clear()
        return ""

    def left_behind(self):
        return ("an old one",)

    def connect(self, node):
        assert node.name in LENT
        return CommandSession(node, ("env", "-C", str(_place() / node.name)))

    def at_once(self, _request, _nodes):
        return {}


class Folder:
    """See `Engine`."""

    def listing(self, asked):
        names = sorted(each.name for each in _place().iterdir() if not asked or each.name in asked)
        return {"_meta": {"hostvars": {name: {"ansible_connection": "folder"} for name in names}}, "f": names}

    def reach(self, nodes):
        return FolderReach(nodes)

    def obstacles(self, nodes):
        full = tuple(node.name for node in nodes if (_place() / node.name / "full").exists())
        return [Obstacle(full, "the folder is full", "empty it", stops=True)] if full else []

    def holder(self, _nodes):
        return None


def _place():
    return Path(os.environ["FOLDER_ENGINE"])


ENGINE: Engine = Folder()
