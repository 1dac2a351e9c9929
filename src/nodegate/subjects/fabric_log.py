"""The fabric manager's log: errors since its present start, and old ones that a restart or reboot has settled."""

from collections.abc import Sequence
from dataclasses import dataclass

from nodegate.kernel_log.unknown_errors import shape
from nodegate.knowledge.sxids import sxid_rule
from nodegate.knowledge.tables import fabric_lines
from nodegate.profile import Profile
from nodegate.records import part
from nodegate.records.finding import Finding
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.subjects.fabric import UNIT
from nodegate.tools.fabric_manager import Entry, local_s, started, switch_error
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

MOST_FINDINGS = 50
_QUOTED = 200
_BAD = frozenset({"ERROR", "CRITICAL", "FATAL"})
_AHEAD_S = 12 * 3600.0  # how far UTC can be ahead of a node's local time
_SETTLED_BY_START = "settled: the service was restarted since"
_SETTLED_BY_BOOT = "settled by the reboot since"
_FATAL_STARTED = "the service was restarted since, which alone does not settle it; see kernel_log.sxid"


@dataclass(frozen=True)
class Problem:
    """What several entries have in common: the part, its meaning, what to do, how bad it is."""

    part: Part
    code: str
    shape: str  # of a message that this version does not know; else empty
    meaning: str
    action: str
    verdict: Verdict
    outlives_a_start: bool = False


def judge_entries(entries: Sequence[Entry], boot_s: Known[float], profile: Profile, verdicts: Verdicts) -> None:
    """A finding for each problem, before and since the present start of the service apart."""
    start = max((number for number, entry in enumerate(entries) if started(entry)), default=-1)
    groups: dict[tuple[Problem, str], list[Entry]] = {}
    for number, entry in enumerate(entries):
        problem = problem_of(entry, profile)
        if problem is not None:
            settled = _settled(entry, problem, boot_s, old=number < start)
            groups.setdefault((problem, settled), []).append(entry)
    for (problem, settled), group in list(groups.items())[:MOST_FINDINGS]:
        verdicts.add(_finding(problem, settled, group))
    if len(groups) > MOST_FINDINGS:
        text = f"{len(groups) - MOST_FINDINGS} more kinds of errors in its log"
        verdicts.found(Verdict.WARN, part=part.service(UNIT), text=text, action="read /var/log/fabricmanager.log")
    if not groups:
        since = entries[start] if start >= 0 else entries[0]
        message = f"no error in its log since {since.when} ({len(entries) - max(start, 0)} entries, local time)"
        verdicts.passed(part=part.service(UNIT), text=message)


def problem_of(entry: Entry, profile: Profile) -> Problem | None:
    """The problem that an entry reports; None for one that reports none."""
    if error := switch_error(entry):
        known = sxid_rule(error.sxid)
        word = "fatal" if error.fatal else "non-fatal"
        return Problem(
            part=part.nvlink(part.nvswitch(address=error.address), error.port),
            code=str(error.sxid),
            shape="",
            meaning=f"{word} error (SXid {error.sxid}) at {known.where.en}",
            action=known.action_for(fatal=error.fatal).en,
            verdict=Verdict.FAIL if error.fatal else Verdict.WARN,
            outlives_a_start=error.fatal,
        )
    if entry.level not in _BAD:
        return None
    for rule in fabric_lines():
        if any(held in entry.message for held in rule.holds) and rule.pattern.search(entry.message):
            verdict = rule.delivery if profile is Profile.DELIVERY else rule.bootcheck
            code = rule.id.replace("_", " ")
            return Problem(part.service(rule.part), code, "", rule.meaning.en, rule.action.en, verdict)
    return Problem(
        part=part.service(UNIT),
        code="unknown error",
        shape=shape(entry.message),
        meaning="an error that this version of nodegate does not know",
        action="read /var/log/fabricmanager.log around it",
        verdict=Verdict.WARN,
    )


def _settled(entry: Entry, problem: Problem, boot_s: Known[float], *, old: bool) -> str:
    """Why an entry is about the past; "" when it is about now."""
    when = local_s(entry)
    if not isinstance(when, Unknown) and not isinstance(boot_s, Unknown) and when + _AHEAD_S < boot_s:
        return _SETTLED_BY_BOOT
    if not old:
        return ""
    return _FATAL_STARTED if problem.outlives_a_start else _SETTLED_BY_START


def _finding(problem: Problem, settled: str, group: Sequence[Entry]) -> Finding:
    first, last = group[0], group[-1]
    when = f"once at {first.when}" if len(group) == 1 else f"{len(group)} times from {first.when} to {last.when}"
    past = Verdict.WARN if settled == _FATAL_STARTED else Verdict.PASS
    return Finding(
        problem.part,
        past if settled else problem.verdict,
        quantity="log entries",
        observed=len(group),
        unit="entries",
        text=f'{problem.meaning}, {when} local time: "{first.message[:_QUOTED]}"',
        note=settled,
        action=problem.action,
        code=problem.code,
    )
