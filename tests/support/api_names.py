"""What nodegate.api and nodegate.open_run promise, a line each: `python -m support.api_names` writes it."""

import ast
import dataclasses
import inspect
import re
import textwrap
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType

from nodegate import api, open_run
from nodegate.report import frames

FILE = Path(__file__).parents[1] / "golden" / "api.txt"
BY_NAME_ALONE = {"Burn", "Copies", "Nccl", "NcclGroups", "RdmaBandwidth", "Counters", "Fleet", "NodePeers", "Order"}
MEASURED = {"Burn", "Copies", "Nccl", "NcclGroups", "RdmaBandwidth"}
INNER = {
    *("Baseline.entries", "Baseline.entry", "Baseline.overrides", "Baseline.statistic"),
    *("Metric.to_json", "Node.connection"),
}
TABLES = {"nodes": frames.NODES, "causes": frames.CAUSES, "findings": frames.FINDINGS, "values": frames.VALUES}


def lines():
    """Every name with what stays of it, sorted by name."""
    found = [f"nodegate.open_run{_signature(open_run)}"]
    found += [f"open_run.{table}.{name}: {kind}" for table, columns in TABLES.items() for name, kind in columns.items()]
    for name in sorted(api.__all__):
        members = sorted(f"{name}{member}" for member in _members(name, getattr(api, name)))
        found += [name, *(each for each in members if re.split(r"[:( ]", each)[0] not in INNER)]
    return found


def _members(name, value):
    if name in BY_NAME_ALONE:
        assert name not in MEASURED or hasattr(value, "metrics") or "metrics" in value.__annotations__
        yield from [".metrics"] * (name in MEASURED)
        return
    if isinstance(value, type) and issubclass(value, Enum):
        yield from (f".{each.name} = {each.value}" for each in value)
    if isinstance(value, type) and dataclasses.is_dataclass(value):
        yield from (f".{each.name}: {_type(value, each.name)}" for each in dataclasses.fields(value))
    if inspect.isfunction(value):
        yield _signature(value)
    if value in (api.CannotMeasure, api.UsageError):
        yield _signature(value.__init__)
    if isinstance(value, (type, ModuleType)):
        yield from _public(value)


def _public(owner):
    """Methods and properties of its own, of a module its functions."""
    for name, each in vars(owner).items():
        inner = getattr(each, "__wrapped__", each)  # kept answers
        if name.startswith("_") or (
            isinstance(owner, ModuleType) and getattr(inner, "__module__", "") != owner.__name__
        ):
            continue
        if isinstance(each, property) or type(each).__name__ == "cached_property":
            getter = each.fget if isinstance(each, property) else each.func
            yield f".{name} -> {_signature(getter).rpartition(' -> ')[2]}"
        elif inspect.isfunction(inner):
            yield f".{name}{_signature(inner)}"


@cache
def _tree(of):
    return ast.parse(textwrap.dedent(inspect.getsource(of))).body[0]


def _signature(function):
    """As it is written: what types resolve to differs from one Python to another."""
    tree = _tree(inspect.unwrap(function))
    given = (
        ast.unparse(tree.args).removeprefix("self, ").removeprefix("self")
        if function.__qualname__.endswith("__init__")
        else ast.unparse(tree.args)
    )
    return f"({given}) -> {ast.unparse(tree.returns)}" if tree.returns else f"({given})"


def _type(owner, name):
    for each in owner.__mro__:
        held = [
            item
            for item in (_tree(each).body if each.__module__.startswith("nodegate") else [])
            if isinstance(item, ast.AnnAssign)
        ]
        for item in held:
            if item.target.id == name:
                return ast.unparse(item.annotation)
    raise LookupError(name)


def written():
    """The text of tests/golden/api.txt."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
