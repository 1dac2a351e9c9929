"""What `--inventory` names: files of several kinds, recognised by their content, folders of them, lists, stdin."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from nodegate.engines.registry import engine, named
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.bounded import read_bounded
from nodegate.files.text_file import Source, read_text
from nodegate.inventory import ansible_ini, ansible_yaml, listing, ranges
from nodegate.inventory.connection import LOCAL_NAMES
from nodegate.inventory.tree import Tree
from nodegate.inventory.variables import VAULT_HEADER

STDIN = "-"
IGNORED_FOLDERS = frozenset({"group_vars", "host_vars", "vars_plugins"})
# As in Ansible: files next to inventories that are not inventories.
IGNORED_ENDINGS = (".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry")

YAML, INI, LIST = "yaml", "ini", "list"  # what a file looks like
ARGUMENT, LISTING = "argument", "listing"  # names on the command line; what ansible-inventory prints
_MAX_DEPTH = 8
_YAML_START = re.compile(r"---|%YAML|\{|- |-$|[\"']?[\w.@+-]+[\"']?\s*:(?:\s|$)")
_ASSIGNMENT = re.compile(r"\S\s+[A-Za-z_]\w*=|^[A-Za-z_]\w*\s*=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Text:
    """One text that a source names, not yet parsed: its name in messages, its folder and, where it is one, its file."""

    name: str
    text: str
    folder: Path
    kind: str  # YAML, INI, LIST, ARGUMENT or LISTING
    path: Path | None = None


class SourceReader:
    """Reads sources into a tree; `read_files` are all that were read, `folders` those that have variables too.

    `typed` are the lists of names on the command line.
    """

    def __init__(self, tree: Tree, stdin: TextIO | None, environ: Mapping[str, str]) -> None:
        self.tree, self.stdin, self.environ = tree, stdin, environ
        self.read_files: list[Source] = []
        self.folders: dict[Path, None] = {}
        self.typed: set[str] = set()

    def source(self, source: str) -> None:
        """Read one value of --inventory.

        Raises:
            UsageError: there is no such file, or it is malformed.
        """
        for text in self._texts(source):
            self._add(text)

    def _texts(self, source: str) -> Iterator[Text]:
        path, parts = Path(source), ranges.split_outside_brackets(source, ",") if "," in source else []
        if source == STDIN:
            if self.stdin is None:  # as in Python if the shell closed it
                raise UsageError("there is no standard input", file=STDIN)
            try:
                written = self.stdin.read(strict_yaml.MAX_BYTES + 1)
            except (OSError, ValueError) as problem:
                raise UsageError(f"cannot be read: {problem}", file="<stdin>") from None
            yield _by_its_look(written, "<stdin>", Path.cwd())
        elif found := named(source):
            listed = json.dumps(engine(found[0]).listing(found[1]), sort_keys=True)
            yield Text(source, listed, Path.cwd(), LISTING)
        elif path.is_dir():
            self.folders[path] = None
            yield from self._in_folder(path, 0)
        elif parts and not os.path.lexists(path) and all(os.path.lexists(part) for part in parts):
            for part in parts:
                yield from self._texts(part)
        elif not os.path.lexists(path) and (set(source) & set(",[") or source in LOCAL_NAMES):
            self.typed.add(source)
            yield Text(source, source, Path.cwd(), ARGUMENT)
        else:
            self.folders[path.parent] = None
            yield self._in_file(path)  # if there is none, the error says what there is instead

    def _in_folder(self, folder: Path, depth: int) -> Iterator[Text]:
        if depth > _MAX_DEPTH:
            what = f"folders nest deeper than {_MAX_DEPTH}"
            raise UsageError(what, file=str(folder), hint="is there a loop of links?")
        for path in sorted(folder.iterdir(), key=lambda each: each.name):
            if path.name.startswith(".") or path.name in IGNORED_FOLDERS or path.name.endswith(IGNORED_ENDINGS):
                continue
            if path.is_dir():
                yield from self._in_folder(path, depth + 1)
            else:
                yield self._in_file(path, found=True)

    def _in_file(self, path: Path, *, found: bool = False) -> Text:
        why = _must_be_asked_for(path)
        text = "" if why else read_text(path, found=found)
        if why or text.startswith(VAULT_HEADER):
            return self._asked(path, why or "this file is encrypted")
        if text.startswith("#!") and not os.access(path, os.X_OK):
            raise UsageError("this is a script that is not executable", file=str(path), hint=f"chmod +x {path}")
        return _by_its_look(text, str(path), path.parent, path)

    def _asked(self, path: Path, why: str) -> Text:
        return Text(str(path), listing.ask(path, why, self.environ), path.parent, LISTING, path)

    def _add(self, given: Text) -> None:
        """Parse a text into the tree."""
        loaded = strict_yaml.load(given.text, given.name) if given.kind == YAML else None
        if loaded and isinstance(loaded.value, dict) and isinstance(plugin := loaded.value.get("plugin"), str):
            if given.path is None:
                raise loaded.wrong("a plugin's settings cannot come from stdin", ("plugin",), "put them in a file")
            given, loaded = self._asked(given.path, f"this file needs the plugin {strict_yaml.shown(plugin)}"), None
        name, base = given.name, str(given.folder.absolute())
        if given.kind == LISTING:
            listing.read(listing.parse(given.text, name), name, base, self.tree)
        elif loaded and listing.is_listing(loaded.value):
            listing.read(loaded.value, name, base, self.tree)
        elif loaded:
            ansible_yaml.read(loaded, base, self.tree)
        elif given.kind == INI:
            ansible_ini.Reader(name, base, self.tree).read(given.text)
        else:
            ansible_ini.read_plain(given.text, name, base, self.tree, lines=given.kind != ARGUMENT)
        self.read_files.append(Source.of(name, given.text))


def _by_its_look(text: str, name: str, folder: Path, path: Path | None = None) -> Text:
    if len(text) > strict_yaml.MAX_BYTES:
        raise UsageError(f"larger than {strict_yaml.MAX_BYTES >> 20} MiB", file=name)
    return Text(name, text, folder, kind_of(text), path)


def kind_of(text: str) -> str:
    """The kind of an inventory's text: YAML, INI or LIST, by its first lines and its sections."""
    rows = [row for line in text.splitlines() if (row := line.strip()) and row[0] not in "#;"]
    if not rows or _YAML_START.match(rows[0]):
        return YAML
    return INI if any(ansible_ini.SECTION.fullmatch(row) or _ASSIGNMENT.search(row) for row in rows) else LIST


def _must_be_asked_for(path: Path) -> str:
    """Why a file cannot be read as an inventory; empty when it can."""
    if path.suffix == ".toml":
        return "this is a TOML inventory"
    if not (path.is_file() and os.access(path, os.X_OK)):
        return ""
    try:
        start = read_bounded(path, 3)
    except OSError:
        return ""
    return "this file is a program" if start.startswith((b"#!", b"\x7fELF")) else ""
