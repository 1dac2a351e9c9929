"""Inventories from a few lines of text."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nodegate.inventory import inventory
from nodegate.inventory.inventory import Inventory

Read = Callable[..., Inventory]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read the text as the file `name` in a folder of its own, which is the current one; `files` lie beside it."""
    monkeypatch.chdir(tmp_path)

    def read_text(
        text: str, name: str = "hosts", environ: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
    ) -> Inventory:
        for path, content in {name: text, **(files or {})}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content, encoding="utf-8")
        return inventory.read([name], environ=environ or {})

    return read_text
