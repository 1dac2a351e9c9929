"""Everything that is recorded of made-up nodes: facts, each measurement, facts again."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.load import burn, copies, groups, nccl, rdma
from fleet.load.after import document_after
from fleet.load.plan import Attempts
from fleet.machine import Machine
from nodegate.errors import Busy, CannotMeasure
from nodegate.measure.measurement import document
from nodegate.measure.registry import FACTS_AFTER
from nodegate.records.evidence import BUSY, FACTS, SCHEMA

# A measurement more is a module more, with a NAME and the function `recorded`.
MODULES = (burn, copies, nccl, rdma, groups)


def recordings(machines: Sequence[Machine]) -> Mapping[str, Mapping[str, dict[str, Any]]]:
    """By node and measurement what stands in its file. The nodes are measured with each other."""
    found: dict[str, dict[str, dict[str, Any]]] = {
        machine.name: {FACTS: machine.document(), FACTS_AFTER: document_after(machine)} for machine in machines
    }
    for name, nodes in measured(machines).items():
        for node, attempts in nodes.items():
            found[node][name] = document(name, attempts)
    for machine in machines:
        for name, why in machine.load.refused.items():
            found[machine.name][name] = _refused(machine, name, why)
    return found


def measured(machines: Sequence[Machine]) -> Mapping[str, Mapping[str, Attempts]]:
    """By measurement and node what the programs left."""
    return {module.NAME: module.recorded(machines) for module in MODULES}


def _refused(machine: Machine, name: str, why: CannotMeasure) -> dict[str, Any]:
    kind = BUSY if isinstance(why, Busy) else ""
    codes = {name: code for name, code in (("blocked_by", why.blocked_by), ("lacks", why.lacks)) if code}
    return {
        "schema": SCHEMA,
        "node": machine.name,
        "measurement": name,
        "started_epoch_s": machine.epoch_s,
        "duration_s": 0.0,
        "error": {"kind": kind, "reason": why.reason, "next_step": why.next_step, **codes},
    }
