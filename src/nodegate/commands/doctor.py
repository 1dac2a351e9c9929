"""Preflight: can every node be reached and queried, and does it have the tools that a run needs?"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.claims.provable import provable
from nodegate.claims.table import claims_of
from nodegate.engines import context as kube
from nodegate.engines.registry import ENGINES, engine
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.facts import NodeFacts
from nodegate.inventory.hostlist import fold
from nodegate.launchers import LAUNCHERS
from nodegate.node import Node
from nodegate.policy.policy import by_contract
from nodegate.text import counted, visible
from nodegate.toolbox.tool_list import how_to_get
from nodegate.toolbox.toolbox import Lacking, Toolbox

if TYPE_CHECKING:
    from nodegate.run.judging import Judging
    from nodegate.toolbox.carried import Carried
    from nodegate.transport import Options

SCHEMA = "nodegate.doctor/1"
SECTIONS = ("system", "pci", "driver", "software", "kernel_log")
TIMEOUT_S = 30.0
AT_ONCE = 64  # nodes
# What the measurements use: tools that are installed together are one entry, and one of several alternatives is enough.
WANTED_TOOLS = (
    (("gpu_burn",),),
    (("nvbandwidth",),),
    (("ib_write_bw",), ("ib_read_bw",), ("ib_write_lat",), ("ib_read_lat",)),
    tuple((f"{name}_perf",) for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")),
    (tuple(LAUNCHERS),),
)


class Weight(str, Enum):
    """What an obstacle prevents, in their order."""

    STOP = "stop"  # no check at all can be judged there
    OPEN = "open"  # a delivery run will not accept the node
    NOTE = "note"  # nothing, or something optional


@dataclass(frozen=True)
class Complaint:
    """One obstacle on one node."""

    node: str
    what: str
    next_step: str
    weight: Weight


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = command.add_argument
    option("--inventory", action="append", required=True, metavar="FILE|HOST,HOST|-", help="the nodes; repeatable")
    option("--nodes", default="", metavar="PATTERN", help="a subset: gpu[001-128], gpu:!gpu005:&rack1, a group")
    option(
        "--baseline", action="append", default=[], type=Path, metavar="FILE", help="baselines of the run; repeatable"
    )
    option("--policy", default="", metavar="NAME|FILE", help="the policy by which the run will be judged")
    option(
        "--host-keys",
        default=None,
        choices=["strict", "accept-new", "off"],
        help="how to treat unknown SSH host keys; strict wins over the inventory",
    )
    option(kube.OPTION, action=kube.Context, metavar="NAME", help=kube.HELP)
    option("--known-hosts", type=Path, metavar="FILE", help="host keys of this project, in addition to the user's own")
    option("--openssh-config", type=Path, metavar="FILE", help="SSH configuration instead of ~/.ssh/config")
    option("--tools", type=Path, metavar="DIR", help="tools that a run would bring to the nodes")
    option("--json", action="store_true", help=f"one object, {SCHEMA}")


def run(asked: argparse.Namespace) -> int:
    """Print the obstacles to a run with these options; returns 1 if a node cannot be queried.

    Raises:
        UsageError: what the run itself would refuse before it contacts a node.
    """
    from nodegate.run.prepare import prepare  # noqa: PLC0415
    from nodegate.run.settings import Settings  # noqa: PLC0415

    settings = Settings(
        inventory=tuple(asked.inventory),
        nodes=asked.nodes,
        baselines=tuple(asked.baseline),
        policy=asked.policy,
        host_keys=asked.host_keys,
        known_hosts=asked.known_hosts,
        ssh_config=asked.openssh_config,
        tools=asked.tools,
    )
    prepared = prepare(settings, stdin=sys.stdin)
    judging, nodes = prepared.judging, list(prepared.judging.nodes.values())
    complaints = examine(nodes, prepared.options, carried=prepared.carried, judging=judging)
    notes = [*prepared.notes, *notes_on_policy(judging)]
    if asked.json:
        names = {"schema": SCHEMA, "ready": ready(nodes, complaints), "nodes": [node.name for node in nodes]}
        found = {"notes": notes, "obstacles": [dataclasses.asdict(each) for each in complaints]}
        print(json.dumps(names | found, ensure_ascii=False))
    else:
        for line in (*(f"note: {note}" for note in notes), *lines(nodes, complaints)):
            print(line, flush=True)
    return int(any(complaint.weight is Weight.STOP for complaint in complaints))


def examine(
    nodes: Sequence[Node], options: Options, *, carried: Carried | None = None, judging: Judging | None = None
) -> list[Complaint]:
    """Query every node, all at once. It changes nothing; `carried` is brought and removed again.

    With `judging`, also what the run cannot prove there.
    """
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(nodes)))) as threads:
        found = threads.map(lambda node: list(_complaints(node, options, carried, judging)), nodes)
        complaints = [each for own in found for each in own]
    for name in ENGINES:
        reached = [node for node in nodes if node.connection.transport == name]
        for each in engine(name).obstacles(reached) if reached else ():
            weight = Weight.STOP if each.stops else Weight.NOTE
            complaints += [Complaint(node, each.what, each.next_step, weight) for node in each.nodes]
    return complaints


def _complaints(node: Node, options: Options, carried: Carried | None, judging: Judging | None) -> Iterator[Complaint]:
    try:
        facts, about_tools, lacking = _ask(node, options, carried)
    except CannotMeasure as said:
        kind = said.kind if isinstance(said, Unreachable) else "not measured"
        yield Complaint(node.name, f"{kind}: {_reason(said, node.name)}", said.next_step, Weight.STOP)
        return
    except Exception as fault:  # noqa: BLE001 - one node's surprise must not hide what the others say
        what = f"nodegate itself failed ({type(fault).__name__}: {fault})"
        yield Complaint(node.name, what, "report this as an error of nodegate", Weight.STOP)
        return
    yield from complaints_about(node.name, facts)
    yield from about_tools
    if judging is not None:
        yield from complaints_about_claims(node, facts, lacking, judging)


def _ask(node: Node, options: Options, carried: Carried | None) -> tuple[NodeFacts, list[Complaint], frozenset[str]]:
    from nodegate.probe.collect import collect  # noqa: PLC0415
    from nodegate.transport import connect  # noqa: PLC0415 - paramiko only where a node is contacted

    session = connect(node, options)
    try:
        facts = NodeFacts(collect(session, timeout_s=TIMEOUT_S, as_root=node.connection.become, sections=SECTIONS))
        tools = Toolbox(session, node, carried=carried)
        try:
            return facts, *complaints_about_tools(node.name, tools)
        finally:
            tools.close()
    finally:
        session.close()


def _reason(said: CannotMeasure, name: str) -> str:
    return said.bare if said.whose == name else said.reason


def complaints_about(name: str, facts: NodeFacts) -> Iterator[Complaint]:
    """What the facts of a node say about further queries."""
    try:
        hidden = sorted(node for node, state in facts.driver.device_nodes.items() if state in ("EPERM", "EACCES"))
        if hidden:
            step = "log in outside the scheduler's cgroup, or let the login see /dev/nvidia*"
            yield Complaint(name, f"hides {len(hidden)} GPUs from this login", step, Weight.OPEN)
        if not facts.driver.loaded:
            yield Complaint(name, "has not loaded the NVIDIA driver", "install and load the driver", Weight.OPEN)
        facts.kernel_log  # noqa: B018 - read for its refusal
        if facts.software.no_compiler:
            step = "install libnvidia-ptxjitcompiler1, or the driver's package of compute libraries"
            yield Complaint(name, "lacks libnvidia-ptxjitcompiler.so.1, so no GPU can be loaded", step, Weight.OPEN)
        if not facts.software.tools.get("nvidia-smi"):
            yield Complaint(name, "lacks nvidia-smi", "install nvidia-smi or put it on PATH", Weight.NOTE)
    except CannotMeasure as said:
        yield Complaint(name, said.reason, said.next_step, Weight.OPEN)


def complaints_about_tools(name: str, tools: Toolbox) -> tuple[list[Complaint], frozenset[str]]:
    """The tools that a node lacks, one line for a package; one that exists and cannot start, separately.

    And the names of all of them, alternatives as "mpirun or srun".
    """
    told, unusable = set(), set()
    for together in WANTED_TOOLS:
        lacking = []
        for alternatives in together:
            try:
                tools.find(*alternatives)
                continue
            except Lacking:
                lacking.append(alternatives)
            except Unreachable:
                raise
            except CannotMeasure as said:
                told.add((_reason(said, name), said.next_step))
            unusable.add(" or ".join(alternatives))
        if lacking:
            what = ", ".join(" or ".join(alternatives) for alternatives in lacking)
            told.add((f"lacks {what}", how_to_get(lacking[0])))
    return [Complaint(name, what, step, Weight.NOTE) for what, step in sorted(told)], frozenset(unusable)


def complaints_about_claims(
    node: Node, facts: NodeFacts, lacking: frozenset[str], judging: Judging
) -> Iterator[Complaint]:
    """What the run will not be able to prove of this node: no limit, no tool, too few nodes."""
    policy = judging.policy
    try:
        baseline = judging.baselines.for_node(node, None, facts.pci, facts.host)
    except CannotMeasure:
        return
    about: dict[str, list[str]] = {}
    agreed = by_contract(policy, baseline)
    made = [claim for claim in claims_of(judging.profile) if not claim.asked_by or claim.name in agreed]
    for found in provable(made, baseline, lacking=lacking, nodes=len(judging.nodes)):
        unset = found.claim.asked_by and all(baseline.find(key) is None for key in found.claim.asked_by)
        for reason in (*found.missing, *((f"no limit {found.claim.asked_by[0]}",) if unset else ())):
            about.setdefault(reason, []).append(found.claim.name)
    signed = {claim.name: judging.waivers.signed(claim.name, node.name) for claim in made}
    if policy is not None and not policy.is_for(baseline.platform):
        what = f"policy {policy.name} is not for platform {baseline.platform or 'unknown'}"
        yield Complaint(node.name, what, "name another policy for these nodes", Weight.OPEN)
    for reason, names in about.items():
        bare = [name for name in names if not signed[name]]
        if bare:
            what = f"cannot be proven: {', '.join(_named(name, judging) for name in bare)}: {reason}"
            step = "supply it (--baseline, --tools, more nodes), or sign off the gap (nodegate_gaps, --waivers)"
            yield Complaint(node.name, what, step, Weight.OPEN)
    for name, who in signed.items():
        if who:
            reasons = [reason for reason, names in about.items() if name in names]
            what = f"may stay unproven: {name}{': ' if reasons else ''}{', '.join(reasons)}"
            yield Complaint(node.name, what, f"signed for: {who}", Weight.NOTE)


def _named(claim: str, judging: Judging) -> str:
    """A claim, with its clause where the user named a policy."""
    clause = judging.policy.item(claim).clause if judging.policy and judging.names_policy else ""
    return f"{claim} (clause {clause})" if clause else claim


def notes_on_policy(judging: Judging) -> Iterator[str]:
    """What the policy asks for and no run can tell."""
    if judging.policy is not None:
        for item in judging.policy.not_measured:
            yield f"policy {judging.policy.name}, clause {item.clause}: not measured by nodegate: {item.title}"


def ready(nodes: Sequence[Node], complaints: Sequence[Complaint]) -> list[str]:
    """The names of the nodes on which a delivery run has nothing in its way."""
    hindered = {each.node for each in complaints if each.weight is not Weight.NOTE}
    return [node.name for node in nodes if node.name not in hindered]


def lines(nodes: Sequence[Node], complaints: Sequence[Complaint]) -> Iterator[str]:
    """How many nodes are ready, and the obstacles by weight: equal ones folded, each next step once, after its own.

    The reason in the head is the first obstacle of the worst weight: what was found on a node is before its claims.
    """
    steps: dict[tuple[Weight, str], dict[str, list[str]]] = {}
    order = list(Weight).index
    for each in sorted(complaints, key=lambda each: (order(each.weight), visible(each.what))):
        same = steps.setdefault((each.weight, visible(each.next_step)), {})
        same.setdefault(visible(each.what), []).append(each.node)
    reasons = sum(len(same) for (weight, _), same in steps.items() if weight is not Weight.NOTE)
    stopped = {each.node for each in complaints if each.weight is Weight.STOP}
    yield f"{len(nodes) - len(stopped)} of {len(nodes)} nodes can be queried"
    because = ""
    if reasons:
        worst = min(complaints, key=lambda each: order(each.weight))
        names = steps[worst.weight, visible(worst.next_step)][visible(worst.what)]
        more = f", and {counted(reasons - 1, 'more reason')}" if reasons > 1 else ""
        because = f"; because {fold(names)}: {visible(worst.what)}{more}"
    yield f"ready for delivery: {len(ready(nodes, complaints))} of {len(nodes)}{because}"
    for (weight, step), same in steps.items():
        *before, last = (f"{weight.value}: {fold(names)}: {what}" for what, names in same.items())
        yield from before
        yield f"{last} - {step}"
