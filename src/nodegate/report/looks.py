"""Which look at a number is the one that was judged, by the evidence beside the results."""

from collections.abc import Iterable

from nodegate.errors import CannotMeasure
from nodegate.inventory.names import NODE_NAME
from nodegate.measure.registry import MEASURED, measurement
from nodegate.metric import DIGITS, Metric
from nodegate.records import part
from nodegate.records.finding import Finding, Record
from nodegate.records.part import Kind, Part
from nodegate.records.run_folder import RunFolder

_Seen = dict[tuple[str, str, str], list[tuple[float, ...]]]  # by metric, unit and part: the values of all looks


class Looks:
    """The looks at the numbers of a run; the evidence of a node is read when its first number is asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._node = folder, ""
        self._of_node: dict[str, _Seen] = {}

    def of(self, record: Record, finding: Finding) -> int | None:
        """From 1; None where no look gave this value: it is a median, or the evidence is not here or was changed.

        What is not measured under load is read once.
        """
        if not finding.metric:
            return 1
        key = finding.metric, finding.unit, _name(finding.part)
        found = (each for seen in self._seen(record) for each in seen.get(key, ()))
        return min((each.index(finding.observed) + 1 for each in found if finding.observed in each), default=None)

    def _seen(self, record: Record) -> Iterable[_Seen]:
        if record.node != self._node:
            self._node, self._of_node = record.node, {}
        for path in record.evidence:
            name = path.rpartition("/")[2].removesuffix(".json")
            if name not in self._of_node:
                seen = self._of_node[name] = {}
                for each in self._metrics(name):
                    key = each.name, each.unit, _name(part.named(each.device))
                    seen.setdefault(key, []).append(tuple(round(value, DIGITS) for value in each.values))
            yield self._of_node[name]

    def _metrics(self, name: str) -> tuple[Metric, ...]:
        if name not in MEASURED or not NODE_NAME.fullmatch(self._node):
            return ()
        evidence = self._folder.read_evidence(self._node, name)
        try:
            return measurement(name).of_document(evidence.document).metrics if evidence and evidence.document else ()
        except CannotMeasure:
            return ()


def _name(whose: Part) -> str:
    """The part as a measurement calls it: what is of the whole node or of several parts has no name."""
    return "" if whose.kind in (Kind.NODE, Kind.COLLECTIVE) else whose.short
