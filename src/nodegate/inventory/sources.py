"""What `--inventory` names: files of several kinds, recognised by their content, folders of them, lists, stdin."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.source import Source
from nodegate.inventory import ansible_ini, ansible_yaml, listing, plain_list, ranges
from nodegate.inventory.connection import LOCAL_NAMES
from nodegate.inventory.var_files import VAULT_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodegate.inventory.tree import Tree

STDIN = "-"
IGNORED_FOLDERS = frozenset({"group_vars", "host_vars", "vars_plugins"})
IGNORED_ENDINGS = (  # as in Ansible: files next to inventories that are not inventories
    *(".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry"),
)

_MAX_DEPTH = 8
_YAML_START = re.compile(r"---|%YAML|\{|- |-$|[\"']?[\w.@+-]+[\"']?\s*:(?:\s|$)")
_ASSIGNMENT = re.compile(r"\S\s+[A-Za-z_]\w*=|^[A-Za-z_]\w*\s*=", re.ASCII)


class SourceReader:
    """Reads sources into a tree; `read_files` are all that were read, `folders` those that have variables too."""

    def __init__(self, tree: Tree, stdin: TextIO | None, environ: Mapping[str, str]) -> None:
        self.tree, self.stdin, self.environ = tree, stdin, environ
        self.read_files: list[Source] = []
        self.folders: dict[Path, None] = {}

    def source(self, source: str) -> None:
        """Read one value of --inventory.

        Raises:
            UsageError: there is no such file, or it is malformed.
        """
        if source == STDIN:
            self._text(_all_of(self.stdin), "<stdin>", Path.cwd())
            return
        path = Path(source)
        if path.is_dir():
            self.folders[path] = None
            self._folder(path, 0)
        elif os.path.lexists(path):
            self.folders[path.parent] = None
            self._file(path)
        elif all(os.path.lexists(part) for part in _parts(source)) and _parts(source):
            for part in _parts(source):
                self.source(part)
        elif set(source) & set(",[") or source in LOCAL_NAMES:
            self._record(source, source)
            plain_list.read(source, source, str(Path.cwd()), self.tree, lines=False)
        else:
            strict_yaml.read_text(path)  # says what there is instead
            raise UsageError("there is no such inventory", file=source)

    def _folder(self, folder: Path, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UsageError(
                f"folders nest deeper than {_MAX_DEPTH}", file=str(folder), hint="is there a loop of links?"
            )
        for path in sorted(folder.iterdir(), key=lambda each: each.name):
            if path.name.startswith(".") or path.name in IGNORED_FOLDERS or path.name.endswith(IGNORED_ENDINGS):
                continue
            if path.is_dir():
                self._folder(path, depth + 1)
            else:
                self._file(path)

    def _file(self, path: Path) -> None:
        if why := _must_be_asked_for(path):
            self._ask(path, why)
            return
        text = strict_yaml.read_text(path)
        if text.startswith(VAULT_HEADER):
            self._ask(path, "this file is encrypted")
        elif text.startswith("#!") and not os.access(path, os.X_OK):
            raise UsageError("this is a script that is not executable", file=str(path), hint=f"chmod +x {path}")
        else:
            self._text(text, str(path), path.parent, path)

    def _text(self, text: str, name: str, folder: Path, path: Path | None = None) -> None:
        if len(text) > strict_yaml.MAX_BYTES:
            raise UsageError(f"larger than {strict_yaml.MAX_BYTES >> 20} MiB", file=name)
        base = str(folder.absolute())
        kind = kind_of(text)
        if kind == "yaml":
            loaded = strict_yaml.load(text, name)
            top = loaded.value
            if isinstance(top, dict) and isinstance(top.get("plugin"), str):
                if path is None:
                    raise loaded.wrong("a plugin's settings cannot come from stdin", ("plugin",), "put them in a file")
                self._ask(path, f"this file needs the plugin {strict_yaml.shown(top['plugin'])}")
                return
            if listing.is_listing(top):
                listing.read(top, name, base, self.tree)
            else:
                ansible_yaml.read(loaded, base, self.tree)
        elif kind == "ini":
            ansible_ini.read(text, name, base, self.tree)
        else:
            plain_list.read(text, name, base, self.tree)
        self._record(name, text)

    def _ask(self, path: Path, why: str) -> None:
        name = str(path)
        text = listing.ask(path, why, self.environ)
        listing.read(listing.parse(text, name), name, str(path.parent.absolute()), self.tree)
        self._record(name, text)

    def _record(self, name: str, text: str) -> None:
        self.read_files.append(Source(name, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()))


def _all_of(stdin: TextIO | None) -> str:
    if stdin is None:  # as in Python if the shell closed it
        raise UsageError("there is no standard input", file=STDIN)
    try:
        return stdin.read(strict_yaml.MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot be read: {problem}", file="<stdin>") from None


def kind_of(text: str) -> str:
    """The kind of an inventory's text: "yaml", "ini" or "list", by its first lines and its sections."""
    rows = [row for line in text.splitlines() if (row := line.strip()) and row[0] not in "#;"]
    if not rows or _YAML_START.match(rows[0]):
        return "yaml"
    ini = any(ansible_ini.SECTION.fullmatch(row) or _ASSIGNMENT.search(row) for row in rows)
    return "ini" if ini else "list"


def _parts(source: str) -> Sequence[str]:
    """The parts of a comma list, at least two."""
    parts: Iterable[str] = ranges.split_outside_brackets(source, ",")
    return tuple(parts) if "," in source else ()


def _must_be_asked_for(path: Path) -> str:
    """Why a file cannot be read as an inventory; empty when it can."""
    if path.suffix == ".toml":
        return "this is a TOML inventory"
    if not (path.is_file() and os.access(path, os.X_OK)):
        return ""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError:
        return ""
    return "this file is a program" if start.startswith((b"#!", b"\x7fELF")) else ""
