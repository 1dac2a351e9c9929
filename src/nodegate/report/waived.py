"""The failures that waivers cover, equal ones of many nodes as one row."""

from dataclasses import dataclass

from nodegate.report.model import Report, in_order
from nodegate.words.catalogue import phrase


@dataclass(frozen=True)
class Waived:
    """Failures of one check that one waiver covers, with what was found."""

    waiver: str
    check: str
    found: str
    nodes: tuple[str, ...]


def waived(report: Report) -> list[Waived]:
    """The failures that waivers cover, by waiver."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for node in report.nodes:
        for record in node.records:
            if record.waiver:
                found = "; ".join(dict.fromkeys(f"{each.part.said}: {each.brief}" for each in record.decisive))
                alike.setdefault((phrase(record.waiver), record.check, found), []).append(node.node)
    return [Waived(waiver, check, found, in_order(nodes)) for (waiver, check, found), nodes in alike.items()]
