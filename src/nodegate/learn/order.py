"""`nodegate_expect` from the accepted nodes of a run, as a file of variables for review."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

from nodegate.errors import CannotMeasure, NotApplicable, UsageError
from nodegate.facts import NodeFacts, known_or_none
from nodegate.files import strict_yaml
from nodegate.node import Node
from nodegate.subjects.order import ORDER, VARIABLE, check_orders
from nodegate.subjects.order_items import FIRMWARE, OF_MODEL, About, Item, Sort, items, of_key
from nodegate.text import counted, some
from nodegate.unknown import Unknown

Value = int | str
Seen = Mapping[str, frozenset[Value] | str]  # the values of an item on one node, or why one could not be read
MOST_VALUES = 4  # of an item that is the same on most machines; no site orders more of them
_MOST_NAMES = 8


@dataclass(frozen=True)
class LearnedOrder:
    """What was learned: the text of the file, and what was left out, with the reason."""

    text: str
    left_out: tuple[str, ...]


def seen(facts: NodeFacts) -> Seen:
    """What one node says of every item; a reading that is unknown makes the item unknown for this node."""
    found: dict[str, frozenset[Value] | str] = {}
    for item in _every(facts):
        try:
            values = [value for _, value in item.read(facts)]
        except (CannotMeasure, NotApplicable) as why:
            found[item.key] = why.reason if isinstance(why, CannotMeasure) else str(why)
            continue
        unread = next((value for value in values if isinstance(value, Unknown)), None)
        if values:
            known = [value for value in values if not isinstance(value, Unknown)]
            plain = frozenset(value if isinstance(value, str) else round(value) for value in known)
            found[item.key] = plain if unread is None else str(unread)
    return found


def _every(facts: NodeFacts) -> Iterable[Item]:
    """The items, the firmware of NICs for each model on the node."""
    yield from (item for item in items().values() if item.key != FIRMWARE)
    rdma = known_or_none(lambda: facts.rdma)
    devices = () if rdma is None else rdma.devices
    models = {device.hca_type for device in devices if not isinstance(device.hca_type, Unknown)}
    yield from (item for item in (of_key(f"{FIRMWARE}{OF_MODEL}{model}") for model in sorted(models)) if item)


def learn_order(nodes: Mapping[str, Seen], *, platform: str, run: str, date: str) -> LearnedOrder:
    """The order that these nodes fulfil: an item that all of them have, with all of its values.

    Raises:
        UsageError: no node was accepted, or they have nothing in common.
    """
    if not nodes:
        raise UsageError("no node of this run was accepted", hint="learn from a run that was signed off")
    held: dict[str, list[Value]] = {}
    left_out = []
    for key in dict.fromkeys(key for node in nodes.values() for key in node):
        why, values = _held(key, nodes)
        if why:
            left_out.append(f"{key} left out: {why}")
        else:
            held[key] = values
    if not held:
        raise UsageError(f"nothing to learn: {'; '.join(left_out)}")
    head = [
        f"{VARIABLE} of {platform or 'an unknown platform'}, learned from run {run}, {date}.",
        f"{counted(len(nodes), 'accepted node')}: {some(nodes, _MOST_NAMES)}",
        "Review it, then keep it as group_vars/GROUP.yaml beside the inventory.",
        *left_out,
    ]
    order = {key: values[0] if len(values) == 1 else values for key, values in held.items()}
    body = yaml.safe_dump({VARIABLE: order}, sort_keys=False, default_flow_style=False, width=1000, allow_unicode=True)
    loaded = strict_yaml.load(body, f"the order learned from {run}")  # it must load again
    check_orders([Node(platform, expected={ORDER: loaded.value[VARIABLE]})])  # type: ignore[index]
    return LearnedOrder("".join(f"# {line}\n" for line in head) + body, tuple(left_out))


def _held(key: str, nodes: Mapping[str, Seen]) -> tuple[str, list[Value]]:
    """Why an item is left out ("" where it is not), and its values."""
    item = of_key(key)
    by_value: defaultdict[Value, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        values = node.get(key, "no such part")
        if isinstance(values, str):
            return f"{name}: {values}", []
        for value in values:
            by_value[value].append(name)
    if item is None or (len(by_value) > MOST_VALUES and item.about is not About.SERIALS):
        return f"{len(by_value)} different values", []
    texts = [value for value in by_value if isinstance(value, str) and item.sort is not Sort.SWITCH]
    if any(value[:1] in "<>" or {"*", "?"} & set(value) for value in texts):
        return "a value with * or ?, < or > would be read as a pattern or a range", []
    return "", sorted(by_value, key=str)
