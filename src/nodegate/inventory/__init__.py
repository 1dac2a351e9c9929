"""Who the nodes are: Ansible's YAML and INI inventories, plain lists and hostlists, as `Node` values."""

from __future__ import annotations

from nodegate.files.source import Source
from nodegate.inventory.inventory import Inventory, read

__all__ = ["Inventory", "Source", "read"]
