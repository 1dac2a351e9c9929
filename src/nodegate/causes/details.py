"""`nodegate show NODE|CAUSE`: the details behind a line of the answer."""

from collections.abc import Iterable, Iterator

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import causes_of
from nodegate.causes.lines import line
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean, shown
from nodegate.records.cause import Cause, CheckFinding
from nodegate.records.finding import Record

MOST_FOLLOWING = 20


def details(records: Iterable[Record], wanted: str, *, everything: bool = False) -> Iterator[str]:
    """What a run found on a node, or of one cause.

    Args:
        records: of the whole run.
        wanted: a node's name, a cause's id ("1650003000003/gpu_lost"), or a part's serial number, address or name.
        everything: all findings that follow from a cause, not the first twenty.

    Raises:
        UsageError: the run has no such node or cause.
    """
    by_node: dict[str, list[Record]] = {}
    for record in records:
        by_node.setdefault(record.node, []).append(record)
    causes = {node: causes_of(found, conditions()) for node, found in by_node.items()}
    every = [cause for found in causes.values() for cause in found]
    chosen = causes.get(wanted) or [cause for cause in every if _is_meant(cause, wanted)]
    if not chosen and wanted in by_node:
        return iter([f"{wanted}: no open findings"])
    if not chosen:
        names = [*by_node, *(cause.id for cause in every)]
        near = did_you_mean(wanted, names)
        hint = near if near.startswith("did") else "name a node, a cause's id, or a part by serial number or address"
        raise UsageError(f"the run has no node and no cause {shown(wanted)}", hint=hint)
    return (text for cause in chosen for text in _cause(cause, everything=everything))


def _is_meant(cause: Cause, wanted: str) -> bool:
    return wanted in (cause.id, cause.condition) or any(part.is_called(wanted) for part in cause.parts)


def _cause(cause: Cause, *, everything: bool) -> Iterator[str]:
    yield f"{cause.severity.value}: {', '.join(cause.nodes)}: {line(cause).text}"
    yield f"  id      {cause.id}"
    if cause.waiver:
        yield f"  waived  {cause.waiver}"
    yield f"  {cause.decisive.finding.verdict.value:<7} {cause.decisive.check}: {cause.decisive.finding.message}"
    yield from _listed(cause.same, everything=everything)
    if cause.follows:
        yield f"  {len(cause.follows)} that follow:"
        yield from _listed(cause.follows, everything=everything)
    yield ""


def _listed(findings: tuple[CheckFinding, ...], *, everything: bool) -> Iterator[str]:
    """The findings, those that say the same of several parts once."""
    alike: dict[tuple[str, str], list[CheckFinding]] = {}
    for each in findings:
        alike.setdefault((each.check, each.finding.brief), []).append(each)
    rows = list(alike.values())
    for same in rows if everything else rows[:MOST_FOLLOWING]:
        parts = ", ".join(dict.fromkeys(each.finding.part.short for each in same))
        yield f"    {same[0].finding.verdict.value:<10} {same[0].check}: {parts}: {same[0].finding.brief}"
    if len(rows) > MOST_FOLLOWING and not everything:
        yield f"    {len(rows) - MOST_FOLLOWING} more: nodegate show --all"
