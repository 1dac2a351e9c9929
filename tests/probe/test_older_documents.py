"""Documents as nodegate 0.2.0 recorded them give the same facts: what is read only since then is unknown."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

from nodegate.facts import FACTS, read
from nodegate.probe.document import document_of, today
from nodegate.probe.pci import Pci
from nodegate.unknown import Unknown, Why

RECORDED = Path(__file__).parents[1] / "recorded"
DEMO = Path(__file__).parents[2] / "inventory" / "demo" / "recordings"
NODES = ("hgx01", "roce01")


def older(node: str) -> Any:
    return json.loads(lzma.decompress((RECORDED / f"facts-0.2.0-{node}.json.xz").read_bytes()))


def fact(name: str, document: Any) -> object:
    found = read(name, document_of(document).recorded_by(today()))
    return found.devices if isinstance(found, Pci) else found  # which is equal to itself alone


@pytest.mark.parametrize(
    "name", sorted(FACTS.keys() - {"hooks", "upkeep"})
)  # of which no document of then has anything
@pytest.mark.parametrize("node", NODES)
def test_an_older_document_gives_the_facts_of_one_of_today(node: str, name: str) -> None:
    before, now = fact(name, older(node)), fact(name, json.loads((DEMO / node / "facts.json").read_text()))
    differing = list(differences(before, now))
    assert [each for each in differing if not isinstance(each, Unknown)] == []
    assert {each.why for each in differing if isinstance(each, Unknown)} <= {Why.NOT_DONE, Why.MISSING}


def differences(one: object, two: object) -> Iterator[object]:
    """The values of the first that are others in the second, down to the single readings."""
    if one == two:
        return
    if is_dataclass(one) and not isinstance(one, Unknown) and type(one) is type(two):
        for each in dataclass_fields(one):
            yield from differences(getattr(one, each.name), getattr(two, each.name))
    elif isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        for pair in zip(one, two, strict=True):
            yield from differences(*pair)
    else:
        yield one
