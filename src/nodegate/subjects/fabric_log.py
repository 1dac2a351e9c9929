"""The fabric manager's log: errors since its present start, and old ones that a restart or reboot has settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate import part
from nodegate.kernel_log.unknown_errors import shape
from nodegate.knowledge.sxids import sxids, unknown_sxid
from nodegate.knowledge.tables import fabric_lines
from nodegate.profile import Profile
from nodegate.subjects.fabric import UNIT
from nodegate.tools.fabric_manager import local_s, started, switch_error
from nodegate.unknown import Known, Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.part import Part
    from nodegate.tools.fabric_manager import Entry
    from nodegate.verdicts import Verdicts

MOST_FINDINGS = 50
_QUOTED = 200
_BAD = frozenset({"ERROR", "CRITICAL", "FATAL"})
_AHEAD_S = 12 * 3600.0  # how far UTC can be ahead of a node's local time
_SETTLED_BY_START = "settled: the service was started again since"
_SETTLED_BY_BOOT = "settled by the reboot since"
_FATAL_STARTED = "the service was started again since, which alone does not settle it; see kernel_log.sxid"


@dataclass(frozen=True)
class Sort:
    """Entries of one sort that are told as one: about what, what it means, what to do, how bad it is."""

    part: Part
    name: str
    meaning: str
    action: str
    verdict: Verdict
    outlives_a_start: bool = False


def tell(entries: Sequence[Entry], boot_s: Known[float], profile: Profile, verdicts: Verdicts) -> None:
    """A finding for each sort of error, before and since the present start of the service apart."""
    start = max((number for number, entry in enumerate(entries) if started(entry)), default=-1)
    groups: dict[tuple[Sort, str], list[Entry]] = {}
    for number, entry in enumerate(entries):
        sort = sort_of(entry, profile)
        if sort is not None:
            groups.setdefault((sort, _settled(entry, sort, boot_s, old=number < start)), []).append(entry)
    for (sort, settled), group in list(groups.items())[:MOST_FINDINGS]:
        _tell(sort, settled, group, verdicts)
    if len(groups) > MOST_FINDINGS:
        message = f"{len(groups) - MOST_FINDINGS} more sorts of errors"
        verdicts.found(Verdict.WARN, part=part.service(UNIT), text=message, action="read /var/log/fabricmanager.log")
    if not groups:
        since = entries[start] if start >= 0 else entries[0]
        message = f"no error in its log since {since.when} ({len(entries) - max(start, 0)} entries, local time)"
        verdicts.passed(part=part.service(UNIT), text=message)


def sort_of(entry: Entry, profile: Profile) -> Sort | None:
    """What an entry tells of; None for one that tells of no fault."""
    if error := switch_error(entry):
        known = sxids().get(error.sxid) or unknown_sxid(error.sxid)
        word = "fatal" if error.fatal else "non-fatal"
        return Sort(
            part=part.nvlink(part.nvswitch(address=error.address), error.port),
            name=f"SXid {error.sxid}",
            meaning=f"{word} error {error.sxid} at {known.where.en}",
            action=known.action_for(fatal=error.fatal).en,
            verdict=Verdict.FAIL if error.fatal else Verdict.WARN,
            outlives_a_start=error.fatal,
        )
    if entry.level not in _BAD:
        return None
    for rule in fabric_lines():
        if any(held in entry.message for held in rule.holds) and rule.pattern.search(entry.message):
            verdict = rule.delivery if profile is Profile.DELIVERY else rule.bootcheck
            return Sort(part.service(rule.part), rule.name, rule.meaning, rule.action, verdict)
    meaning, action = "an error that this version does not know", "read /var/log/fabricmanager.log around it"
    return Sort(part.service(UNIT), shape(entry.message), meaning, action, Verdict.WARN)


def _settled(entry: Entry, sort: Sort, boot_s: Known[float], *, old: bool) -> str:
    """Why an entry speaks of the past; "" when it speaks of now."""
    when = local_s(entry)
    if not isinstance(when, Unknown) and not isinstance(boot_s, Unknown) and when + _AHEAD_S < boot_s:
        return _SETTLED_BY_BOOT
    if not old:
        return ""
    return _FATAL_STARTED if sort.outlives_a_start else _SETTLED_BY_START


def _tell(sort: Sort, settled: str, group: Sequence[Entry], verdicts: Verdicts) -> None:
    first, last = group[0], group[-1]
    when = f"once at {first.when}" if len(group) == 1 else f"{len(group)} times from {first.when} to {last.when}"
    past = Verdict.WARN if settled == _FATAL_STARTED else Verdict.PASS
    verdicts.found(
        past if settled else sort.verdict,
        part=sort.part,
        text=f'{sort.meaning}, {when} local time: "{first.message[:_QUOTED]}"' + (f" ({settled})" if settled else ""),
        action=sort.action,
        code=sort.name,
        observed=len(group),
        unit="entries",
    )
