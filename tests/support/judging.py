"""One check on one recorded machine, without pytest's collection, transports or a run folder.

A machine is a probe document: the JSON object that a node would send. Its facts go through the real parsers, its limits
come from the suite's own baselines.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from nodegate import suite
from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.judge.baseline import Baselines
from nodegate.judge.baseline_file import unit_for
from nodegate.judge.characteristics import characteristics
from nodegate.judge.fleet import Fleet
from nodegate.judge.run import judge
from nodegate.judge.verdict import Limit
from nodegate.node import Node
from nodegate.probe.document import document_of
from nodegate.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodegate.judge.baseline import Baseline
    from nodegate.judge.verdict import Record

SITE = "the site"  # the source that limits given by a test name

_BASELINES: list[Baselines] = []


def judge_one(
    check_id: str,
    machine: Mapping[str, object],
    *,
    profile: Profile = Profile.DELIVERY,
    baseline: Baseline | Mapping[str, object] | None = None,
    node: Node | None = None,
    fleet: Fleet | None = None,
) -> Record:
    """What the check `check_id` says of a machine.

    Args:
        check_id: such as "pcie.link_width".
        machine: the probe document.
        profile: for checks that are stricter at delivery.
        baseline: a whole one, or single limits that win over those of the machine's platform; a limit of None takes
            that one away.
        node: as the inventory would describe it; default: a node "gpu01" with nothing expected.
        fleet: all nodes of the run; default: this one alone.
    """
    node = node or Node("gpu01", origin="hosts.yaml:3")
    facts = facts_of(machine)
    whole = baseline if dataclasses.is_dataclass(baseline) else baseline_of(facts, node, baseline or {})
    context = {"node": node, "profile": profile, "baseline": whole, "fleet": fleet}

    def resolve(name: str) -> object:
        if name == "fleet" and fleet is None:
            return fleet_of({node.name: machine})
        return context[name] if name in context else facts.get(name)

    return judge(suite.check(check_id), resolve, node.name)


def facts_of(machine: Mapping[str, object]) -> NodeFacts:
    """The machine's facts as a check would be given them, received the moment they were taken."""
    epoch_s = machine.get("epoch_s", 0.0)
    return NodeFacts(
        document_of(machine, received_epoch_s=float(epoch_s) if isinstance(epoch_s, (int, float)) else 0.0)
    )


def baseline_of(facts: NodeFacts, node: Node, limits: Mapping[str, object] | None = None) -> Baseline:
    """The suite's baseline for a machine, with single limits put in its place or taken away (None)."""
    found = _baselines().for_node(node, _or_none(facts, "gpus"), _or_none(facts, "pci"))
    given = dict(limits or {})
    entries = {key: entry for key, entry in found.entries.items() if key not in given}
    overrides = {key: limit for key, limit in found.overrides.items() if key not in given}
    for key, value in given.items():
        if value is not None:
            overrides[key] = value if isinstance(value, Limit) else Limit(value, _unit(found, key), SITE)
    return dataclasses.replace(found, entries=entries, overrides=overrides)


def fleet_of(machines: Mapping[str, Mapping[str, object]]) -> Fleet:
    """The fleet that these machines make, by node name."""
    found = {}
    for name, machine in machines.items():
        facts = facts_of(machine)
        found[name] = (baseline_of(facts, Node(name)).platform, characteristics(facts))
    return Fleet(found)


def judge_all(check_ids: Iterable[str], machine: Mapping[str, object], **options: object) -> dict[str, Record]:
    """What several checks say of a machine."""
    return {check_id: judge_one(check_id, machine, **options) for check_id in check_ids}  # type: ignore[arg-type]


def _unit(baseline: Baseline, key: str) -> str:
    entry = baseline.entries.get(key)
    units = (entry.unit,) if entry else unit_for(key)
    return units[0] if len(units) == 1 else ""


def _baselines() -> Baselines:
    if not _BASELINES:
        _BASELINES.append(Baselines.read())
    return _BASELINES[0]


def _or_none(facts: NodeFacts, name: str) -> object:
    try:
        return facts.get(name)
    except CannotMeasure:
        return None
