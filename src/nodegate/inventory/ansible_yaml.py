"""Ansible's YAML inventories: groups with `hosts`, `children` and `vars`, below any top-level name."""

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import Loaded, dotted, shown
from nodegate.inventory.names import parse_entry
from nodegate.inventory.tree import Group, Layer, Tree

GROUP_KEYS = ("hosts", "children", "vars")

Path = tuple[object, ...]


def read(loaded: Loaded, folder: str, tree: Tree) -> None:
    """Add the groups and hosts of a YAML inventory to the tree.

    Raises:
        UsageError: the file is malformed, with file and line.
    """
    if (top := loaded.value) is None:
        return
    if not isinstance(top, dict):
        hint = "begin with `all:`, then `hosts:` below it; for one name per line write no dashes"
        raise loaded.wrong("an inventory must be a mapping of groups", (), hint)
    reader = _Reader(loaded, folder, tree)
    for name, body in top.items():
        reader.group(name, body, (name,))


def priority(value: object) -> int | None:
    """The number of an ansible_group_priority; None when it is not a number."""
    try:
        return int(str(value)) if not isinstance(value, bool) else None
    except ValueError:
        return None


class _Reader:
    def __init__(self, loaded: Loaded, folder: str, tree: Tree) -> None:
        self.loaded, self.folder, self.tree = loaded, folder, tree

    def group(self, name: object, body: object, path: Path) -> None:
        group = self.tree.add_group(name, self.loaded.name, self.loaded.line(path))
        if body is None:
            return
        if not isinstance(body, dict):
            what = f"a group must be a mapping of {', '.join(GROUP_KEYS)}, not {shown(str(body))}"
            raise self.loaded.wrong(f"{dotted(path)}: {what}", path)
        for key, section in body.items():
            if key not in GROUP_KEYS:
                raise self.loaded.unknown_key((*path, key), GROUP_KEYS)
            entries = self._entries(section, (*path, key))
            if key == "hosts":
                self._hosts(group, entries, (*path, key))
            elif key == "children":
                for child_name, child_body in entries.items():
                    where = (*path, key, child_name)
                    child = self.tree.add_group(child_name, self.loaded.name, self.loaded.line(where))
                    self.tree.add_child(group, child, self.loaded.name, self.loaded.line(where))
                    self.group(child_name, child_body, where)
            else:
                self._variables(group, entries, (*path, key))

    def _entries(self, section: object, path: Path) -> dict[object, object]:
        if section is None:
            return {}
        if isinstance(section, str) and path[-1] != "vars":
            return {section: None}  # `hosts: gpu[001:128]`
        if isinstance(section, dict):
            return section
        hint = "write one name per line, each followed by a colon, without a dash" if isinstance(section, list) else ""
        raise self.loaded.wrong(f"{dotted(path)} must be a mapping", path, hint)

    def _hosts(self, group: Group, entries: dict[object, object], path: Path) -> None:
        for entry, body in entries.items():
            where = (*path, entry)
            if not isinstance(entry, str):
                raise self.loaded.wrong(f"{dotted(path)}: the name {entry} is not text", where, f'write "{entry}"')
            try:
                written = parse_entry(entry)
            except UsageError as problem:
                raise self.loaded.wrong(f"{dotted(path)}: {problem.message}", where, problem.hint) from None
            if body is not None and not isinstance(body, dict):
                message = f"{dotted(where)}: the variables of a host must be a mapping, not {shown(str(body))}"
                raise self.loaded.wrong(message, where)
            self.tree.add_hosts(written, group, self._layer(body or {}, where))

    def _variables(self, group: Group, entries: dict[object, object], path: Path) -> None:
        values = dict(entries)
        if "ansible_group_priority" in values:
            if (found := priority(values.pop("ansible_group_priority"))) is None:
                where = (*path, "ansible_group_priority")
                raise self.loaded.wrong(f"{dotted(where)} must be a whole number", where)
            group.priority = found
        layer = self._layer(entries, path)
        group.layers.append(Layer(values, layer.file, layer.folder, layer.line, layer.lines))  # type: ignore[arg-type]

    def _layer(self, body: dict[object, object], path: Path) -> Layer:
        for name in body:
            if not isinstance(name, str):
                raise self.loaded.wrong(f"{dotted(path)}: the variable name {name} is not text", (*path, name))
        lines = self.loaded.lines(body)
        return Layer(body, self.loaded.name, self.folder, self.loaded.line(path), lines)  # type: ignore[arg-type]
