"""Inventories from a few lines of text."""

from collections.abc import Callable

import pytest

from nodegate.inventory import inventory
from nodegate.inventory.inventory import Inventory

Read = Callable[..., Inventory]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read the text as the file `name` in a folder of its own, which is the current one; `files` lie beside it."""
    monkeypatch.chdir(tmp_path)

    def read_text(text, name="hosts", environ=None, files=None):
        for path, content in {name: text, **(files or {})}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content, encoding="utf-8")
        return inventory.read([name], environ=environ or {})

    return read_text
