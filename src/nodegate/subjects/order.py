"""What a site has ordered: `nodegate_expect` of the inventory, read, refused where it is wrong, and held to the facts.

Each item is one value, a list of accepted values, a range (">= 550.54, < 560"), or a pattern with * and ?.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nodegate.errors import CannotMeasure, NotApplicable, NotDemanded, UsageError
from nodegate.facts import NodeFacts
from nodegate.files.strict_yaml import did_you_mean
from nodegate.node import Node
from nodegate.records.finding import AnyLimit, Limit, LimitKind, LimitValue
from nodegate.records.part import NODE, Part
from nodegate.subjects.order_items import About, Item, Sort, items, of_key
from nodegate.unknown import Known, Unknown, Why

VARIABLE = "nodegate_expect"
ORDER = "expect"  # without the prefix, as a node has it
_MOST_SHOWN = 8  # of the values of a list
_RANGE = re.compile(r"\s*(>=|<=|>|<)\s*(\S+)\s*")
_FORMS = {Sort.VERSION: re.compile(r"\d{1,9}(?:\.\d{1,9}){0,7}"), Sort.HEX: re.compile(r"\w{1,8}(?:\.\w{1,8}){0,7}")}
_Key = tuple[float, ...]


@dataclass(frozen=True)
class Demand:
    """What one item must be, as the site wrote it: `exact` values, `patterns`, and `ranges` of bounds that all hold."""

    item: Item
    source: str
    exact: frozenset[str]
    patterns: tuple[str, ...]
    ranges: tuple[tuple[tuple[str, _Key], ...], ...]
    written: tuple[str, ...]

    @property
    def limit(self) -> AnyLimit:
        """What is right, for a finding."""
        value: LimitValue = tuple(sorted(set(self.written)))
        if len(self.written) == 1:
            number = self.item.sort is Sort.NUMBER and not self.ranges
            value = float(self.written[0]) if number else self.written[0]
        elif len(self.written) > _MOST_SHOWN:
            value = f"one of the {len(self.written)} of the order"
        return Limit(value, self.item.unit, self.source, kind=LimitKind.ORDER)

    def holds(self, value: Known[int | float | str]) -> Known[bool]:
        """Whether a value is one that was ordered; unknown for one that a range cannot be compared with."""
        if isinstance(value, Unknown):
            return value
        text = _text(value, self.item.sort)
        if text in self.exact or any(fnmatchcase(text, pattern) for pattern in self.patterns):
            return True
        if not self.ranges:
            return False
        own = _order(text, self.item.sort)
        if own is None:
            return Unknown(Why.FAILED, f"{text!r} is not a {self.item.sort.value}")
        return any(all(_is_within(own, sign, bound) for sign, bound in bounds) for bounds in self.ranges)


class Order:
    """What was ordered of one node, and the node's facts. `about` gives the demands that one check judges."""

    def __init__(self, demands: Iterable[Demand], facts: NodeFacts) -> None:
        self._demands, self._facts = tuple(demands), facts

    def about(self, about: About) -> tuple[Demand, ...]:
        """The demands of one check. Raises NotApplicable: there are none."""
        found = tuple(demand for demand in self._demands if demand.item.about is about)
        if not found:
            raise NotDemanded(f"the inventory requires none ({VARIABLE})")
        return found

    def readings(self, demand: Demand) -> list[tuple[Part, Known[int | float | str]]]:
        """What the node says of a demanded item, part by part; unknown where it says nothing."""
        try:
            found = demand.item.read(self._facts)
        except CannotMeasure as why:
            return [(NODE, Unknown(Why.FAILED, why.reason))]
        except NotApplicable as why:  # a section that its recorder did not know yet
            return [(NODE, Unknown(Why.FAILED, str(why)))]
        return found or [(NODE, Unknown(Why.MISSING, "no such part on this node"))]


def order_of(node: Node, facts: NodeFacts) -> Order:
    """The order of a node, with its facts."""
    return Order(demands(node), facts)


def check_orders(nodes: Iterable[Node]) -> None:
    """Refuse what could not be demanded: a typing error must not switch a demand off.

    Raises:
        UsageError: an unknown item or a value of the wrong kind, with the file and line that set it.
    """
    for node in nodes:
        demands(node)


def demands(node: Node) -> tuple[Demand, ...]:
    """Everything that the inventory demands of a node. Raises UsageError: as for `check_orders`."""
    return tuple(_demand(node, key, value) for key, value in node.settings.expect.items())


def _demand(node: Node, key: str, value: object) -> Demand:
    item = of_key(key)
    if item is None:
        raise _wrong(node, f"{VARIABLE}: unknown item {key[:60]!r}", did_you_mean(key, items()))
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise _wrong(node, f"{VARIABLE}: {key} is an empty list, which nothing can satisfy", "leave the item out")
    written = tuple(_written(node, item, each) for each in values)
    ranges = tuple(_bounds(node, item, each) for each in written if each.lstrip().startswith(("<", ">")))
    plain = [each for each in written if not each.lstrip().startswith(("<", ">"))]
    wild = [each for each in plain if {"*", "?"} & set(each)]
    exact = frozenset(_text(each, item.sort) for each in plain if each not in wild)
    source = f"inventory {node.origins.get(ORDER) or node.origin}".rstrip()
    return Demand(item, source, exact, tuple(wild), ranges, written)


def _written(node: Node, item: Item, value: object) -> str:
    """One value as text, refused where it cannot be one of this item."""
    if item.sort is Sort.SWITCH:
        text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        if text not in ("on", "off"):
            raise _wrong(node, f"{VARIABLE}: {item.key} must be on or off, not {value!r}")
        return text
    if isinstance(value, str) and (odd := _odd_sign(value, item.sort)):
        raise _wrong(node, f"{VARIABLE}: {item.key}: {value[:60]!r} is not understood: {odd}", _EXAMPLES[item.sort])
    if item.sort is Sort.NUMBER:
        text = str(value).strip()
        is_range = isinstance(value, str) and text.startswith(("<", ">"))
        if isinstance(value, bool) or not (is_range or _order(text, Sort.NUMBER)):
            raise _wrong(node, f"{VARIABLE}: {item.key} must be a number or a range of numbers, not {value!r}")
        return text
    if not isinstance(value, str) or not value.strip():
        hint = f'put it in quotes: {item.key}: "{value}"'
        raise _wrong(node, f"{VARIABLE}: {item.key} must be text, not {value!r}", hint)
    return value.strip()


def _odd_sign(written: str, sort: Sort) -> str:
    """What looks like a comparison and is none: it would be compared as text, which nothing equals."""
    text = written.strip()
    if text[:1] in tuple("=!~^≥≤"):
        return f"{text[0]} is not a sign of a range"
    is_range = text[:1] in ("<", ">")
    return "a sign inside" if sort is not Sort.TEXT and not is_range and set(text) & set("<>=≥≤") else ""


def _bounds(node: Node, item: Item, written: str) -> tuple[tuple[str, _Key], ...]:
    found, form = [], _FORMS.get(item.sort)
    for each in written.split(","):
        match = _RANGE.fullmatch(each)
        bound = _order(match[2], item.sort) if match and (form is None or form.fullmatch(match[2])) else None
        if match is None or bound is None:
            message = f"{VARIABLE}: {item.key}: {each.strip()!r} is no bound of a {item.sort.value}"
            raise _wrong(node, message, _EXAMPLES[item.sort])
        found.append((match[1], bound))
    pairs = ((low, high) for low in found for high in found if low[0][0] == ">" and high[0][0] == "<")
    for (sign, low), (over, high) in pairs:
        if not _is_within(low, "<=" if sign + over == ">=<=" else "<", high):  # no value is within both
            raise _wrong(node, f"{VARIABLE}: {item.key}: nothing is {written!r}", _EXAMPLES[item.sort])
    return tuple(found)


_EXAMPLES = {
    Sort.VERSION: 'a range of versions reads ">= 550.54, < 560"',
    Sort.HEX: 'a range of versions reads ">= 96.00.9F.00.00"',
    Sort.NUMBER: 'a range of numbers reads ">= 500, <= 700"',
    Sort.TEXT: "strings have no order: give the values, or a pattern with *",
    Sort.SWITCH: "on or off",
}


def _order(text: str, sort: Sort) -> _Key | None:
    """What a text is compared by; None where it has no order."""
    try:
        if sort is Sort.NUMBER:
            value = float(text)
            return (value,) if 0 <= value < float("inf") else None
        match = _FORMS[sort].match(text) if sort in _FORMS else None
        base = 16 if sort is Sort.HEX else 10
        return tuple(int(step, base) for step in match[0].split(".")) if match else None
    except ValueError:
        return None


def _is_within(own: _Key, sign: str, bound: _Key) -> bool:
    """Missing parts of a version count as zero."""
    length = max(len(own), len(bound))
    left, right = own + (0,) * (length - len(own)), bound + (0,) * (length - len(bound))
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[sign]


def _text(value: float | str, sort: Sort) -> str:
    """A value as it is compared: numbers by their whole, so that 700 and 700.0 are the same."""
    return f"{float(value):.0f}" if sort is Sort.NUMBER else str(value).strip()


def _wrong(node: Node, message: str, advice: str = "") -> UsageError:
    return node.wrong(message, advice, variable=ORDER)
