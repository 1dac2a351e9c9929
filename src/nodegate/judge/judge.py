"""One check on one node: call it, and turn what it says or raises into a record. No pytest, no I/O."""

import operator
import traceback
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from nodegate.errors import Busy, CannotMeasure, NotApplicable, NotJudged, Unreachable
from nodegate.records.evidence import BUSY
from nodegate.records.finding import OWN_WORD, Finding, Record, reason_of
from nodegate.records.part import NO_PARTS, NODE, Part, Parts
from nodegate.records.verdict import Verdict, worst
from nodegate.suite import Check
from nodegate.text import MOST_CHARACTERS, visible
from nodegate.unknown import Why
from nodegate.verdicts import NEXT_STEP_UNKNOWN, Verdicts

_LARGEST = (1 << 63) - 1
_SPOKEN = frozenset((Verdict.PASS, Verdict.WARN, Verdict.FAIL))
_OTHERS_DO = "others of this node do"
OWN_FAULT = "own fault"  # the code of an error that says nothing of the node: the check broke
_TEXTS = ("text", "note", "action", "quantity", "unit", "code")
_PART_TEXTS = ("name", "pci", "serial", "uuid", "netdev")
_texts_of, _texts_of_part = operator.attrgetter(*_TEXTS), operator.attrgetter(*_PART_TEXTS)
_apart_from_its_parts = operator.attrgetter(
    *(field.name for field in fields(Finding) if field.name not in {"part", "also"})
)


def judge(
    check: Check,
    resolve: Callable[[str], object],
    node: str,
    parts: Parts = NO_PARTS,
    *,
    evidence: tuple[str, ...] = (),
) -> Record:
    """Run a check over the facts that `resolve` gives by argument name.

    `resolve` may raise CannotMeasure (the fact could not be read: `error`), NotApplicable (`skip`) or NotJudged
    (`not-judged`). Anything else that is raised is a fault of the check itself: `error` too, with the place, for it
    proves nothing about the node. `parts` are the node's parts, by which a finding's part gets all of its names;
    `evidence` are the paths of what the facts were read from.
    """
    verdicts = Verdicts(parts)
    ending: Finding | None = None
    arguments: dict[str, object] = {}
    asked = ""
    try:
        for asked in check.asks_for:
            arguments[asked] = verdicts if asked == "verdicts" else resolve(asked)
        asked = ""
        check.function(**arguments)
    except (CannotMeasure, NotApplicable, NotJudged) as said:
        ending = refusal(said, node=node, lacks=asked)
        said.__traceback__ = None  # a refusal that is kept for the next check would keep all that its frames hold
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001 - not only Exception: sys.exit() and pytest.skip() prove no more
        ending = own_fault(fault)
    findings = [*verdicts.findings, *([ending] if ending else [])]
    return record_of(check, node, findings, evidence=evidence)


def refusal(said: CannotMeasure | NotApplicable | NotJudged, *, node: str, lacks: str = "") -> Finding:
    """The finding for a check that could not, or need not, judge; `lacks` is the argument that it did not get."""
    if isinstance(said, CannotMeasure):
        reason = said.bare if said.whose == node else said.reason
        code = said.kind if isinstance(said, Unreachable) else BUSY if isinstance(said, Busy) else ""
        return Finding(
            NODE,
            Verdict.ERROR,
            text=reason,
            action=said.next_step,
            code=code,
            blocked_by=said.blocked_by,
            lacks=said.lacks or lacks,
        )
    if isinstance(said, NotJudged):
        return Finding(NODE, Verdict.NOT_JUDGED, text=str(said))
    return Finding(NODE, Verdict.SKIP, text=str(said), why=said.why, witness=said.witness)


def own_fault(fault: BaseException) -> Finding:
    """The finding for a check that broke: our fault, not the node's."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    text = f"the check itself failed ({type(fault).__name__}: {fault}{place})"
    action = "report this as a bug in nodegate, with the node's evidence file"
    return Finding(NODE, Verdict.ERROR, text=text, action=action, code=OWN_FAULT)


def record_of(check: Check, node: str, findings: Sequence[Finding], *, evidence: Sequence[str] = ()) -> Record:
    """The record of a check from its findings; a check without one is `error`: nothing was judged."""
    nothing = Finding(NODE, Verdict.ERROR, text="the check found nothing to judge", action="look at the evidence file")
    printable = [_printable(finding) for finding in _witnessed(findings) or (nothing,)]
    verdict = worst(finding.verdict for finding in printable)
    return Record(
        node=node,
        check=check.id,
        verdict=verdict,
        why=reason_of(verdict, printable),
        findings=_folded(printable),
        failure_modes=check.failure_modes,
        evidence=tuple(evidence),
        claim=check.claim,
    )


def _witnessed(findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings, in which no part is without something by its own word that another part of its kind has."""
    if not any(finding.witness == OWN_WORD for finding in findings):
        return findings
    spoken = {
        (of.kind, quantity)
        for finding in findings
        if finding.verdict in _SPOKEN
        for of in finding.parts
        for quantity in ("", finding.quantity)
    }
    return [
        replace(
            finding,
            verdict=Verdict.ERROR,
            why=Why.FAILED,
            witness="",
            text=f"{finding.text}; {_OTHERS_DO}",
            action=NEXT_STEP_UNKNOWN,
        )
        if finding.witness == OWN_WORD and (finding.part.kind, finding.quantity) in spoken
        else finding
        for finding in findings
    ]


def _printable(finding: Finding) -> Finding:
    """The finding fit for a terminal: a node's own words could move its cursor, or run to megabytes."""
    part, also = _printable_part(finding.part), finding.also and tuple(map(_printable_part, finding.also))
    if isinstance(finding.observed, (int, float)) and not abs(finding.observed) <= _LARGEST:
        finding = replace(finding, observed=str(finding.observed))  # nan, inf and more than 64 bits: no number of JSON
    observed = finding.observed if isinstance(finding.observed, str) else ""
    is_clean = part is finding.part and all(map(operator.is_, also, finding.also))
    if is_clean and _is_clean("".join((*_texts_of(finding), observed))):  # one look: there are many
        return finding
    texts = dict(zip(_TEXTS, _texts_of(finding), strict=True))
    texts |= {"observed": observed} if observed else {}
    clean = {name: _one_line(text) for name, text in texts.items() if not _is_clean(text)}
    return replace(finding, part=part, also=also, **clean)  # type: ignore[arg-type]


def _printable_part(part: Part) -> Part:
    of = part.of and _printable_part(part.of)
    if of is part.of and _is_clean("".join(_texts_of_part(part))):
        return part
    texts = dict(zip(_PART_TEXTS, _texts_of_part(part), strict=True))
    clean = {name: _one_line(text) for name, text in texts.items() if not _is_clean(text)}
    return replace(part, of=of, **clean)  # type: ignore[arg-type]


def _is_clean(text: str) -> bool:
    return text.isprintable() and len(text) <= MOST_CHARACTERS


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _folded(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, with healthy parts of the same result in one: a node may have a hundred per check.

    What is wrong stays a finding for each part.
    """
    kept: list[Finding] = []
    alike: dict[object, list[Finding]] = {}
    for finding in findings:
        if finding.verdict not in (Verdict.PASS, Verdict.SKIP):
            kept.append(finding)
            continue
        key = _apart_from_its_parts(finding)
        if key not in alike:
            alike[key] = []
            kept.append(finding)
        alike[key].append(finding)
    if len(alike) == len(findings):
        return tuple(findings)
    folds = {
        id(same[0]): replace(same[0], also=tuple(part for finding in same for part in finding.parts)[1:])
        for same in alike.values()
        if len(same) > 1
    }
    return tuple(folds.get(id(finding), finding) for finding in kept)
