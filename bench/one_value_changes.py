"""What becomes of a healthy node of which one value is wrong: docs/one-value-changes.md.

Every value that the probe sends of a healthy 8 x H100 node (of parts of one kind, one) is replaced by each of ODD in
turn, and the node is judged by every check of the facts.

    PYTHONPATH=tests python bench/one_value_changes.py docs/one-value-changes.md
"""

from __future__ import annotations

import copy
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.machine import Machine
from support.whole_node import whole

from nodegate.errors import CannotMeasure
from nodegate.facts import FACTS
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nodegate.suite import Check

Place = tuple["str | int", ...]

ODD: tuple[object, ...] = (
    None, "", "garbage", "N/A", "-1", "0", "1", "999999", "0xffffffff", -1, 0, 1, 2, 255, 1 << 31, (1 << 32) - 1,
    (1 << 63) - 1, 10**30, 1.5, True, False, [], {},
    {"why": "not supported", "detail": ""}, {"why": "missing", "detail": ""}, {"why": "failed", "detail": ""},
)  # fmt: skip
REJECTED, INCOMPLETE, WARNED, ACCEPTED = "rejected", "incomplete", "accepted with a warning", "accepted"
# Of these lists and objects the values of one entry are changed: by its place, or by what its name begins with.
ONE_OF: Mapping[str, object] = {"nvml.gpus": 3, "nvml.gpus.nvlinks": 7, "infiniband": "mlx5_1", "netdev": "ibs1"}
NOT_CHANGED = ("kernel_log.lines",)  # texts that every check of the log has its own tests for


def machine() -> Machine:
    """The healthy node."""
    return Machine.hgx_h100("gpu01")


def places(value: object, where: Place = ()) -> Iterator[Place]:
    """Where the values are that are changed: of equal parts those of one."""
    name = field(where)
    if name in NOT_CHANGED:
        return
    if isinstance(value, dict):
        only = ONE_OF.get(name)
        only = only if isinstance(only, str) else None
        for key, each in value.items():
            if only is None or key == only:
                yield from places(each, (*where, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index in _shown(name, value):
            yield from places(value[index], (*where, index))
    else:
        yield where


def _shown(name: str, entries: list[Any]) -> list[int]:
    """The entries of a list that are changed: of PCIe one device of each kind."""
    if name == "pci":
        kinds: dict[str, int] = {}
        for index, entry in enumerate(entries):
            kinds.setdefault(f"{entry['class']} {entry['driver']}", index)
        return sorted(kinds.values())
    only = ONE_OF.get(name, 0)
    return [only] if isinstance(only, int) and only < len(entries) else [0]


def field(where: Place) -> str:
    """The name of a value without the places in lists."""
    return ".".join(each for each in where if isinstance(each, str))


def changed(where: Place, value: object) -> Machine:
    """The node with one value changed."""
    made = machine()
    at: Any = made.sections
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = copy.deepcopy(value)
    return made


def reads(check: Check, section: str) -> bool:
    """Whether a check judges what the probe read, and this section of it; the limits rest on the GPUs that are seen."""
    asked = set(check.asks_for)
    if not asked <= {*FACTS, "baseline", "profile", "node", "verdicts"}:
        return False
    sections = {each for name in asked & FACTS.keys() for each in FACTS[name].sections}
    return section in sections or ("baseline" in asked and section in {"nvml", "pci"})


def verdict(made: Machine, section: str) -> str:
    """What becomes of the node of which this section was changed; all other checks pass as before."""
    try:
        verdicts = {record.verdict for record in whole(made, only=lambda check: reads(check, section)).values()}
    except CannotMeasure:
        return INCOMPLETE
    if Verdict.FAIL in verdicts:
        return REJECTED
    if Verdict.ERROR in verdicts:
        return INCOMPLETE
    return WARNED if Verdict.WARN in verdicts else ACCEPTED


def tried(limit: int | None = None) -> Iterator[tuple[str, object, str]]:
    """Each change with the field and what became of the node."""
    sections = machine().sections
    for where in list(places(sections))[:limit]:
        at: Any = sections
        for step in where:
            at = at[step]
        for odd in ODD:
            if json.dumps(odd) != json.dumps(at):
                yield field(where), odd, verdict(changed(where, odd), str(where[0]))


def main() -> None:
    """Try all of them and write the page."""
    counts: Counter[str] = Counter()
    kept: dict[str, list[object]] = defaultdict(list)
    of_field: Counter[str] = Counter()
    for name, odd, outcome in tried():
        counts[outcome] += 1
        of_field[name] += 1
        if outcome in (ACCEPTED, WARNED):
            kept[name].append(odd)
    print(dict(counts), sum(counts.values()), len(of_field))
    Path(sys.argv[1]).write_text(json.dumps({name: [of_field[name], kept[name]] for name in of_field}), "utf-8")


if __name__ == "__main__":
    main()
