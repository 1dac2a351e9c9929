"""Who the nodes are: Ansible's YAML and INI inventories, plain lists and hostlists, as `Node` values."""

from __future__ import annotations

from nodegate.inventory.inventory import Inventory, read
from nodegate.source import Source

__all__ = ["Inventory", "Source", "read"]
