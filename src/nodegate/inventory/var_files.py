"""`group_vars/` and `host_vars/` next to an inventory: files and folders, .yml, .yaml, .json or no ending."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.text_file import read_text
from nodegate.inventory.tree import Layer

Kind = Literal["group_vars", "host_vars"]

ENDINGS = ("", ".yml", ".yaml", ".json")  # Ansible's order: the first that exists is the only one read
VAULT_HEADER = "$ANSIBLE_VAULT;"
_MAX_DEPTH = 8


class VarFiles:
    """The variable files of one inventory folder. `on_file(name, sha256)` is called for each file that is read."""

    def __init__(self, folder: Path, on_file: Callable[[str, str], None], on_note: Callable[[str], None]) -> None:
        self._folder, self._on_file, self._on_note = folder, on_file, on_note
        self._entries: dict[Kind, frozenset[str]] = {
            "group_vars": _names(folder / "group_vars"),
            "host_vars": _names(folder / "host_vars"),
        }
        self._known: dict[tuple[Kind, str], tuple[Layer, ...]] = {}

    def layers(self, kind: Kind, name: str) -> tuple[Layer, ...]:
        """What is set for a group or host of this name, in the order in which it counts.

        Raises:
            UsageError: a file cannot be read, is not YAML, or is not a mapping.
        """
        if not self._entries[kind]:
            return ()
        found = self._known.get((kind, name))
        if found is None:
            files = self._files(kind, name)
            found = self._known[kind, name] = tuple(layer for file in files for layer in self._read(file))
        return found

    def _files(self, kind: Kind, name: str) -> Iterable[Path]:
        for ending in ENDINGS:
            if name + ending in self._entries[kind]:
                path = self._folder / kind / (name + ending)
                return list(_files_below(path, 0)) if path.is_dir() else [path]
        return ()

    def _read(self, path: Path) -> Iterable[Layer]:
        text = read_text(path, found=True)
        self._on_file(str(path), hashlib.sha256(text.encode()).hexdigest())
        if text.startswith(VAULT_HEADER):
            self._on_note(f"{path}: encrypted as a whole, not read")
            return
        loaded = strict_yaml.load(text, str(path))
        if loaded.value is None:
            return
        if not isinstance(loaded.value, dict):
            raise loaded.wrong("a file of variables must be a mapping", (), "write name: value")
        for name in loaded.value:
            if not isinstance(name, str):
                raise loaded.wrong(f"the variable name {name} is not text", (name,))
        lines = loaded.lines(loaded.value)
        yield Layer(loaded.value, str(path), str(self._folder), loaded.line(()), lines)  # type: ignore[arg-type]


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(each.name for each in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as problem:
        raise UsageError(f"cannot list it: {problem.strerror}", file=str(folder)) from None


def _files_below(folder: Path, depth: int) -> Iterable[Path]:
    if depth > _MAX_DEPTH:
        raise UsageError(f"folders nest deeper than {_MAX_DEPTH}", file=str(folder), hint="look for a loop of links")
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir() and not path.suffix:
            yield from _files_below(path, depth + 1)
        elif path.is_file() and path.suffix in ENDINGS:
            yield path
