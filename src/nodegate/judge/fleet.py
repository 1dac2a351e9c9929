"""The nodes of one run compared: what most nodes of a platform have in common, and who differs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from nodegate.errors import ByDesign, NotJudged
from nodegate.judge.characteristics import Characteristics, CommonSkew, common_skew
from nodegate.judge.identity import Identities, Identity
from nodegate.kernel_log.fleet import MIN_NODES, FleetLog
from nodegate.records.finding import Finding, Limit, LimitKind, LimitValue
from nodegate.records.part import Part
from nodegate.records.run import Drift
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from nodegate.past.lemon import Lemon


MAX_SHOWN = 4
OWN_MACHINE = "separate machine"  # the code of what a name lacks that leads to another one's machine
SAME_MACHINE_STEP = "correct ansible_host or the host name, or take one of them out of the inventory"


@dataclass(frozen=True)
class Difference:
    """One characteristic in which a node is not like the majority of its platform.

    `count` of `total` nodes have the majority's value; `majority` is "" when no value is held by more than half, and
    then `values` says what there is.
    """

    characteristic: str
    value: str
    majority: str
    count: int
    total: int
    values: str = ""

    def finding(self, part: Part, *, action: str) -> Finding:
        """The warning that says it: what this node has, and what most of the others have."""
        said = Finding(
            part,
            Verdict.WARN,
            self.characteristic,
            self.value,
            text=self.value,
            action=action,
            code=self.characteristic.lower(),
        )
        if self.majority:
            whose = f"{self.count} of {self.total} nodes"
            limit: Limit[LimitValue] = Limit(self.majority, "", whose, kind=LimitKind.FLEET)
            return replace(said, limit=limit)
        return replace(said, note=f"no value is common to most of {self.total} nodes ({self.values})")


@dataclass(frozen=True)
class _Tally:
    """How often each value of one characteristic was seen on one platform."""

    counts: Counter[str]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def majority(self) -> tuple[str, int]:
        """The value of more than half of the nodes and its count; ("", 0) when there is none."""
        value, count = self.counts.most_common(1)[0]
        return (value, count) if 2 * count > self.total else ("", 0)

    def __str__(self) -> str:
        shown = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        more = f", {len(shown) - MAX_SHOWN} more" if len(shown) > MAX_SHOWN else ""
        return ", ".join(f"{count} x {value}" for value, count in shown[:MAX_SHOWN]) + more


@dataclass(frozen=True)
class Past:
    """A node's last weeks: days with a run, what fails again by slot ("" for the node), if it was compared at all."""

    days: int
    again: Sequence[tuple[str, Lemon]] = ()
    compared: bool = True


class Fleet:
    """The characteristics of all nodes of a run, by platform; `log` compares their kernel logs.

    Args:
        nodes: for each node its platform ("" when unknown) and its characteristics.
        identities: for each node who its machine is, as far as that is known.
        others: names of the inventory that this run does not measure.
        racks: the rack of each node whose rack is known.
        past: what the record says of a node that fails again; None where no run of the weeks before looked at it.
    """

    def __init__(
        self,
        nodes: Mapping[str, tuple[str, Mapping[str, Known[str]]]],
        identities: Mapping[str, Identity] | None = None,
        others: Collection[str] = (),
        racks: Mapping[str, str] | None = None,
        past: Callable[[str], Past | None] | None = None,
    ) -> None:
        self.past = past or (lambda _node: None)
        self._nodes, self._racks = nodes, racks or {}
        self._identities = Identities(identities or {}, others)
        self._members: Counter[str] = Counter(platform for platform, _ in nodes.values())
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for platform, values in nodes.values():
            for name, value in values.items():
                if not isinstance(value, Unknown):
                    counts[platform, name][value] += 1
        self._tallies = {key: _Tally(counter) for key, counter in counts.items()}
        self._common_skew: dict[float, CommonSkew | None] = {}  # by limit: each node asks, and the answer is the same
        self.log = FleetLog({node: (platform, each.log) for node, platform, each in self._characterised()})

    def common_skew(self, limit_s: float) -> CommonSkew | None:
        """By how much most nodes differ from the controller alike: then its clock is wrong. None if they do not."""
        if limit_s not in self._common_skew:
            skews = {node: each.clock for node, _, each in self._characterised() if each.clock is not None}
            self._common_skew[limit_s] = common_skew(skews, limit_s)
        return self._common_skew[limit_s]

    def domains(self, node: str) -> Counter[str]:
        """How many nodes of this one's rack and platform are in each NVLink domain of several nodes."""
        rack, platform = self._racks.get(node, ""), self._nodes[node][0] if node in self._nodes else ""
        return self._domains.get((rack, platform), Counter())

    @cached_property
    def _domains(self) -> Mapping[tuple[str, str], Counter[str]]:
        """By rack and platform, for the nodes whose rack is known."""
        counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for node, platform, each in self._characterised():
            if each.domain and (rack := self._racks.get(node)):
                counts[rack, platform][each.domain] += 1
        return counts

    def _characterised(self) -> Iterator[tuple[str, str, Characteristics]]:
        """Each node with more than values to compare, with its platform."""
        return (
            (node, platform, each)
            for node, (platform, each) in self._nodes.items()
            if isinstance(each, Characteristics)
        )

    def wrong_machine(self, node: str) -> str:
        """In words, why the name of this node does not lead to a separate machine; empty if it does.

        Raises:
            ByDesign: the node is judged by itself.
            NotJudged: nothing is known by which this machine could be told from others.
        """
        if not self._nodes:
            raise ByDesign("a node by itself: there is no other name to compare", witness="the inventory: one node")
        who = self._identities.known.get(node, Identity())
        wrong = self._identities.wrong(node) if node in self._identities.known else ""
        if not wrong and not who.machine:
            raise NotJudged(f"not judged: its {who.lacks} could not be read")
        return wrong

    def twin(self, node: str) -> str:
        """In words, which other machine of this run reports a serial number of this one; empty if none does."""
        return self._identities.twin(node) if node in self._identities.known else ""

    def unread_names(self) -> tuple[str, ...]:
        """The names of this run whose machine is not known: nothing is said of where they lead."""
        known = self._identities.known
        return tuple(sorted(name for name in self._nodes if name not in known or not known[name].machine))

    def compare(self, node: str) -> tuple[Difference, ...]:
        """In what this node differs from the majority of its platform; values that could not be read do not count.

        Raises:
            NotJudged: its platform is unknown, or fewer than three nodes of it are in this run.
        """
        found = []
        for name, value, tally in self._comparable(node):
            majority, count = tally.majority
            if value != majority:
                values = "" if majority else str(tally)
                found.append(Difference(name, value, majority, count, tally.total, values))
        return tuple(found)

    def agreeing(self, node: str) -> tuple[str, ...]:
        """The characteristics in which this node is like the majority of its platform: the evidence for a pass.

        Raises:
            NotJudged: as for `compare`.
        """
        return tuple(name for name, value, tally in self._comparable(node) if value == tally.majority[0])

    def drift(self) -> tuple[Drift, ...]:
        """Every characteristic that differs between nodes of one platform, for the report."""
        odd = {key: tally for key, tally in self._tallies.items() if key[0] and len(tally.counts) > 1}
        holders: defaultdict[tuple[str, str], defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for node, (platform, values) in self._nodes.items():
            for name, value in values.items():
                key = (platform, name)
                if key in odd and not isinstance(value, Unknown) and value != odd[key].majority[0]:
                    holders[key][value].append(node)
        rows = []
        for (platform, name), tally in sorted(odd.items()):
            majority, count = tally.majority  # "" when no value is held by more than half
            others = {value: tuple(sorted(nodes)) for value, nodes in sorted(holders[platform, name].items())}
            rows.append(Drift(platform, name, majority, count, tally.total, others))
        return tuple(rows)

    def _comparable(self, node: str) -> list[tuple[str, str, _Tally]]:
        """The characteristics of this node that at least three nodes of its platform have."""
        platform, values = self._nodes.get(node, ("", {}))
        if not platform:
            raise NotJudged("the platform is unknown, so there is nothing to compare this node with")
        if self._members[platform] < MIN_NODES:
            raise NotJudged(
                f"only {self._members[platform]} of platform {platform} in this run, {MIN_NODES} are needed"
            )
        found = []
        for name, value in values.items():
            if not isinstance(value, Unknown):
                tally = self._tallies[platform, name]
                if tally.total >= MIN_NODES:
                    found.append((name, value, tally))
        return found
