"""What a check's arguments mean on one node: facts, the node itself, its baseline, the profile and the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, NotJudged
from nodegate.facts import FACTS, NodeFacts
from nodegate.probe.document import document_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodegate.judge.baseline import Baseline, Baselines
    from nodegate.judge.fleet import Fleet
    from nodegate.node import Node
    from nodegate.probe.gpu import Gpus
    from nodegate.probe.pci import Pci
    from nodegate.profile import Profile
    from nodegate.run.evidence import Evidence

CONTEXT_NAMES = ("node", "baseline", "profile", "fleet", "verdicts")


def argument_names() -> frozenset[str]:
    """Every name that a check may ask for."""
    return frozenset((*FACTS, *CONTEXT_NAMES))


def facts_of(evidence: Evidence) -> NodeFacts:
    """The typed facts in a node's evidence.

    Raises:
        CannotMeasure: the measurement failed, or its document is not what the probe writes.
    """
    if evidence.error or evidence.document is None:
        raise evidence.error or CannotMeasure("there is no evidence", next_step="measure this node again")
    document = document_of(
        evidence.document,
        received_epoch_s=evidence.received_epoch_s,
        round_trip_s=evidence.round_trip_s,
    )
    return NodeFacts(document)


class Context:
    """Answers for the argument names of checks on one node.

    `facts` is None where the node gave none; `missing` then says why. `fleet` is asked for only by the checks that
    compare, for it needs every node.
    """

    def __init__(
        self,
        node: Node,
        evidence: Evidence,
        *,
        baselines: Baselines,
        profile: Profile,
        fleet: Callable[[], Fleet],
    ) -> None:
        self.node, self._profile, self._baselines, self._fleet = node, profile, baselines, fleet
        self._baseline: Baseline | None = None
        self.facts: NodeFacts | None = None
        self.missing: CannotMeasure | None = None
        try:
            self.facts = facts_of(evidence)
        except CannotMeasure as said:
            self.missing = said

    def give_up(self, fault: Exception) -> None:
        """Judge nothing by these facts: we broke on them, and so know nothing of the node."""
        self.facts = None
        self.missing = CannotMeasure(
            f"nodegate itself failed on what this node sent ({type(fault).__name__}: {fault})",
            next_step="report this as a fault of nodegate, with the node's evidence file",
        )

    def resolve(self, name: str) -> object:
        """The value of a check's argument.

        Raises:
            CannotMeasure: the fact could not be had.
            NotJudged: it does not apply here.
        """
        if name == "node":
            return self.node
        if name == "profile":
            return self._profile
        if self.missing:
            raise self.missing
        if name == "baseline":
            return self.baseline
        if name == "fleet":
            return self._fleet()
        return self.known_facts.get(name)

    @property
    def known_facts(self) -> NodeFacts:
        """The facts.

        Raises:
            CannotMeasure: the node gave none.
        """
        if self.facts is None:
            raise self.missing or CannotMeasure("there is no evidence", next_step="measure this node again")
        return self.facts

    @property
    def baseline(self) -> Baseline:
        """What is right for this node: found from its hardware, unless the inventory names the platform."""
        if self._baseline is None:
            gpus: Gpus | None = _or_none(self.facts, "gpus")  # type: ignore[assignment]
            pci: Pci | None = _or_none(self.facts, "pci")  # type: ignore[assignment]
            self._baseline = self._baselines.for_node(self.node, gpus, pci)
        return self._baseline


def _or_none(facts: NodeFacts | None, name: str) -> object:
    try:
        return facts.get(name) if facts else None
    except (CannotMeasure, NotJudged):
        return None
