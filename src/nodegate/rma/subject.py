"""Whom an archive is about: a node of a run, and of it one part where a serial number was named."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.records.cause import Cause
from nodegate.records.part import Part
from nodegate.records.run import NodeReport
from nodegate.records.verdict import Verdict
from nodegate.report.model import Report


@dataclass(frozen=True)
class Subject:
    """A node of a run; `serial` is that of the part that was named, empty where the node was."""

    report: Report
    node: NodeReport
    serial: str = ""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.node

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of the node, worst first; of one part those that it has, if it has any."""
        found = self.report.node_causes[self.name]
        return tuple(each for each in found if self.serial in _of(each.parts)) or found if self.serial else found

    @property
    def serials(self) -> dict[str, str]:
        """Part -> serial number: what the node itself said, and those of parts that did not answer any more."""
        parts = [part.of or part for each in self.report.node_causes[self.name] for part in each.parts]
        return {part.short: part.serial for part in parts if part.serial} | dict(self.node.serials)

    @property
    def kept(self) -> frozenset[str]:
        """The serial numbers that a vendor cannot do without: of the chassis, and of the part or of all that failed."""
        failed = {serial for each in self.causes if each.verdict is Verdict.FAIL for serial in _of(each.parts)}
        return frozenset(({self.serial} if self.serial else failed) | {self.node.serials.get("chassis", "")}) - {""}


def _of(parts: Iterable[Part]) -> Iterator[str]:
    """The serial numbers and UUIDs of parts, and of what they belong to."""
    for part in parts:
        yield from filter(None, (part.serial, part.uuid))
        yield from _of((part.of,) if part.of else ())


def all_serials(report: Report, node: NodeReport) -> frozenset[str]:
    """Every serial number and UUID that a report has of a node."""
    return frozenset(
        (*node.serials.values(), *(_of(part for each in report.node_causes[node.node] for part in each.parts)))
    )


def subject(report: Report, wanted: str) -> Subject:
    """The node of this name, or the node that has the part with this serial number.

    Raises:
        UsageError: the run has neither, or several nodes report the serial number.
    """
    for node in report.nodes:
        if node.node == wanted:
            return Subject(report, node)
    having = [node for node in report.nodes if wanted in all_serials(report, node)]
    if len(having) > 1:
        names = ", ".join(node.node for node in having[:8])
        raise UsageError(f"several nodes report the serial number {shown(wanted)}: {names}", hint="name the node")
    if not having:
        near = did_you_mean(wanted, [node.node for node in report.nodes])
        hint = near if near.startswith("did") else "name a node or a serial number of this run, or another --run"
        raise UsageError(f"the run has no node and no part {shown(wanted)}", hint=hint)
    return Subject(report, having[0], wanted)
