"""Inventories from a program: what `ansible-inventory -i X --list` prints, or a file that holds such output."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import Tagged, shown
from nodegate.inventory.names import parse_entry
from nodegate.inventory.tree import Group, Layer, Tree

PROGRAM = "ansible-inventory"
TIMEOUT_S = 120
_META = "_meta"
_LIKE_A_GROUP = ("hosts", "children", "vars")


def ask(path: Path, why: str, environ: Mapping[str, str]) -> str:
    """The JSON text that ansible-inventory prints for this file, which may execute it.

    Raises:
        UsageError: there is no ansible-inventory on PATH, it fails, or it takes longer than 120 s.
    """
    if (program := shutil.which(PROGRAM, path=environ.get("PATH", ""))) is None:
        hint = f"install ansible-core, so that {PROGRAM} is on PATH, or save its output: {PROGRAM} -i X --list > X.json"
        raise UsageError(f"{why}, which needs {PROGRAM}", file=str(path), hint=hint)
    argv = [program, "-i", str(path.absolute()), "--list"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=dict(environ), start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the inventory script too
            raise UsageError(f"{PROGRAM} took longer than {TIMEOUT_S} s", file=str(path)) from None
    if process.returncode != 0 or b"Unable to parse" in stderr:
        rows = [row.strip() for row in stderr.decode("utf-8", "replace").splitlines() if row.strip()]
        telling = [row for row in rows if "ERROR" in row or "Failed to parse" in row or "Unable to parse" in row]
        said = next(iter([*telling, *reversed(rows)]), "it printed nothing")
        raise UsageError(f"{PROGRAM} failed (exit code {process.returncode}): {shown(said)}", file=str(path))
    return stdout.decode("utf-8", "replace")


def parse(text: str, name: str) -> object:
    """The data in this JSON text.

    Raises:
        UsageError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{PROGRAM} did not print JSON: {str(problem)[:200]}", file=name) from None


def is_listing(data: object) -> bool:
    """Whether this looks like the output of `ansible-inventory --list` or an inventory script."""
    return isinstance(data, dict) and isinstance(data.get(_META), dict)


def read(data: object, name: str, folder: str, tree: Tree) -> None:
    """Add the groups, hosts and merged variables of a listing to the tree.

    Raises:
        UsageError: it is not a listing, or a name in it is not allowed.
    """
    if not isinstance(data, dict):
        raise UsageError("not an inventory listing: it must be a mapping of groups", file=name)
    _Reader(name, folder, tree, data).read()


class _Reader:
    def __init__(self, name: str, folder: str, tree: Tree, data: Mapping[str, object]) -> None:
        self.name, self.folder, self.tree, self.data = name, folder, tree, data
        meta = data.get(_META)
        hostvars = meta.get("hostvars") if isinstance(meta, dict) else None
        self.hostvars: Mapping[str, object] = hostvars if isinstance(hostvars, dict) else {}
        self.seen: set[str] = set()

    def read(self) -> None:
        for name, body in self.data.items():
            if name != _META:
                self._group(name, body)
        ungrouped = self.tree.groups["ungrouped"]
        for host in self.hostvars:
            if host not in self.seen:
                self._host(self._text(host, "host"), ungrouped)

    def _group(self, name: str, body: object) -> None:
        group = self.tree.add_group(name, self.name, 0)
        body = {"hosts": body} if isinstance(body, list) else body
        if not isinstance(body, dict):
            raise UsageError(f"{name}: not a group: it has none of {', '.join(_LIKE_A_GROUP)}", file=self.name)
        for host in _texts(body.get("hosts")):
            self._host(host, group)
        for child in _texts(body.get("children")):
            self.tree.add_child(group, self.tree.add_group(child, self.name, 0), self.name, 0)
        if isinstance(values := body.get("vars"), dict):
            group.layers.append(self._layer(values))

    def _host(self, name: str, group: Group) -> None:
        try:
            written = parse_entry(name)
        except UsageError as problem:
            raise UsageError(problem.message, file=self.name, hint=problem.hint) from None
        values = None if name in self.seen else self.hostvars.get(name)
        self.seen.add(name)
        self.tree.add_hosts(written, group, self._layer(values if isinstance(values, dict) else {}))

    def _layer(self, values: Mapping[str, object]) -> Layer:
        named = {self._text(key, "variable"): _decoded(value) for key, value in values.items()}
        return Layer(named, self.name, self.folder)

    def _text(self, name: object, what: str) -> str:
        """The name of something: a listing written by hand in YAML may have a number there."""
        if not isinstance(name, str):
            raise UsageError(f"the {what} name {shown(str(name))} is not text", file=self.name, hint="put it in quotes")
        return name


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _decoded(value: object) -> object:
    """Ansible's own marks in JSON: an encrypted value stays encrypted, an unsafe one is plain text."""
    if isinstance(value, dict) and len(value) == 1:
        if isinstance(text := value.get("__ansible_vault"), str):
            return Tagged("!vault", text)
        if isinstance(text := value.get("__ansible_unsafe"), str):
            return Tagged("!unsafe", text)
    return value
