"""One check on one node: call it, and turn what it says or raises into a record. No pytest, no I/O."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure, NotJudged
from nodegate.text import MOST_CHARACTERS, visible
from nodegate.verdict import Finding, Record, Verdict
from nodegate.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.suite import Check


def judge(check: Check, resolve: Callable[[str], object], node: str) -> Record:
    """Run a check over the facts that `resolve` gives by argument name.

    `resolve` may raise CannotMeasure (the fact could not be had: `error`) or NotJudged (`skip`). Anything else that
    is raised is a fault of the check itself: `error` too, with the place, for it proves nothing about the node.
    """
    started = time.monotonic()
    verdicts = Verdicts()
    ending: Finding | None = None
    try:
        arguments = {name: verdicts if name == "verdicts" else resolve(name) for name in check.asks_for}
        check.function(**arguments)
    except (CannotMeasure, NotJudged) as said:
        ending = refusal(said, subject=node)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001 - not only Exception: sys.exit() and pytest.skip() prove no more
        ending = own_fault(fault, subject=node)
    return record_of(check, node, verdicts, ending, duration_s=time.monotonic() - started)


def refusal(said: CannotMeasure | NotJudged, *, subject: str) -> Finding:
    """The finding for a check that could not, or need not, judge."""
    if isinstance(said, CannotMeasure):
        reason = said.reason.removeprefix(f"{subject}: ")  # the transport's own word
        line = f"{subject}: {reason} - {said.next_step}"
        return Finding(subject=subject, verdict=Verdict.ERROR, message=line, action=said.next_step)
    return Finding(subject=subject, verdict=Verdict.SKIP, message=str(said))


def own_fault(fault: BaseException, *, subject: str) -> Finding:
    """The finding for a check that broke: our fault, not the node's."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    line = f"{subject}: the check itself failed ({type(fault).__name__}: {fault}{place})"
    step = "report this as a fault of nodegate, with the node's evidence file"
    return Finding(subject=subject, verdict=Verdict.ERROR, message=f"{line} - {step}", action=step)


def record_of(
    check: Check,
    node: str,
    verdicts: Verdicts,
    ending: Finding | None = None,
    *,
    duration_s: float = 0.0,
    evidence: Sequence[str] = (),
) -> Record:
    """The record of a check from its findings and, where it did not run to its end, how it ended."""
    findings = [_told(finding) for finding in (*verdicts.findings, *([ending] if ending else []))]
    if not findings:
        line = f"{node}: the check found nothing to judge"
        findings = [Finding(subject=node, verdict=Verdict.ERROR, message=line, action="look at the evidence file")]
    overall = Verdicts()
    overall.findings = findings
    return Record(
        node=node,
        check=check.id,
        verdict=overall.verdict,
        message=_headline(findings, overall.verdict),
        findings=_folded(findings),
        failure_modes=check.failure_modes,
        evidence=tuple(evidence),
        duration_s=duration_s,
    )


def _told(finding: Finding) -> Finding:
    """The finding fit for a terminal: a node's own words could move its cursor, or run to megabytes."""
    texts = (finding.subject, finding.message, finding.action)
    if all(text.isprintable() and len(text) <= MOST_CHARACTERS for text in texts):
        return finding
    subject, message, action = (visible(" ".join(text.split())) for text in texts)
    return replace(finding, subject=subject, message=message, action=action)


def _folded(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, with the healthy devices that say the same in one: a node has a hundred of them a check.

    What is wrong stays a finding for each device.
    """
    told: list[Finding] = []
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        if finding.verdict is not Verdict.PASS or not finding.metric:
            told.append(finding)
            continue
        key = (finding.metric, finding.value, finding.unit, finding.limit, finding.limit_source)
        if key not in alike:
            alike[key] = []
            told.append(finding)
        alike[key].append(finding)
    folds = {id(same[0]): _fold(same) for same in alike.values() if len(same) > 1}
    return tuple(folds.get(id(finding), finding) for finding in told)


def _fold(same: list[Finding]) -> Finding:
    subjects = ", ".join(finding.subject for finding in same)
    said = same[0].message.removeprefix(f"{same[0].subject}: ")
    return replace(same[0], subject=subjects, message=f"{len(same)} alike: {said}")


def _headline(findings: list[Finding], verdict: Verdict) -> str:
    """The first of the worst findings, and how many more there are of it."""
    decisive = [finding.message for finding in findings if finding.verdict is verdict]
    more = f" (and {len(decisive) - 1} more)" if len(decisive) > 1 else ""
    return f"{decisive[0]}{more}"
