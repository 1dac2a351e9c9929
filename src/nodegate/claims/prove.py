"""From the records of a node to its claims: proven, refuted, or not proven and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from nodegate import suite
from nodegate.claims.table import SITE, claims, claims_of, homes
from nodegate.profile import Profile
from nodegate.records.claim import Amount, Claim, Shown, State, joined
from nodegate.records.finding import Finding, LimitKind, Record, kinds
from nodegate.records.part import Kind
from nodegate.records.verdict import Verdict
from nodegate.text import with_unit
from nodegate.words.catalogue import known, phrase, say, spoken

LEFT_OUT = known("not asked for: this run covered only part of its profile")
_OPEN = frozenset((Verdict.ERROR, Verdict.NOT_JUDGED, Verdict.SKIP))  # one of them may prove nothing
ENDED = known("the run ended before it was judged")
WAIVED = known("waived")


class _Open(NamedTuple):
    """Why one check proves nothing."""

    check: str
    why: str


def shown(
    claims: Iterable[Claim], records: Sequence[Record], belonging: Collection[str], asked: Collection[str] = ()
) -> tuple[Shown, ...]:
    """What the records of a node show of each claim.

    A claim whose checks all do not apply to the node by its design (collectives of a single GPU) is not made.

    Args:
        claims: those of the profile.
        records: all of the node.
        belonging: the checks of the profile.
        asked: those that this run was asked for; one of them without a record was not judged any more.
    """
    by_check = {record.check: record for record in records}
    failed = [record for record in by_check.values() if record.verdict is Verdict.FAIL]
    found = (_shown(claim, by_check, failed, belonging, asked) for claim in claims)
    return tuple(each for each in found if each is not None)


def _shown(
    claim: Claim,
    records: Mapping[str, Record],
    failures: Iterable[Record],
    belonging: Collection[str],
    asked: Collection[str],
) -> Shown | None:
    failed = [record for record in failures if speaks(claim, record.check)]
    bad = [record for record in failed if not record.waiver]
    if bad:
        return Shown(claim.name, State.REFUTED, _refuting(bad[0]), _checks(bad))
    proving = [check for check in claim.proving if check in belonging]
    missing = [check for check in proving if check not in records]
    judged = [records[check] for check in proving if check in records]
    found = [each for record in judged for each in _open(record, number=record.check in claim.numbers)]
    silent = (records[check] for check in claim.silent if check in records)
    found += [each for record in silent if record.verdict is Verdict.ERROR for each in _open(record, number=False)]
    found = list(dict.fromkeys(found))
    if found:
        return Shown(claim.name, State.NOT_PROVEN, found[0].why, tuple(dict.fromkeys(each.check for each in found)))
    ended = tuple(check for check in missing if check in asked)
    if ended:
        return Shown(claim.name, State.NOT_PROVEN, ENDED, ended, is_ended=True)
    if missing:
        return Shown(claim.name, State.NOT_PROVEN, LEFT_OUT, tuple(missing), left_out=True)
    if failed:  # last: who answers for a failure has not signed for what nothing proves
        waivers = "; ".join(dict.fromkeys(record.waiver for record in failed))
        return Shown(claim.name, State.NOT_PROVEN, WAIVED, _checks(failed), waivers, is_waived=True)
    proven = tuple(record.check for record in judged if record.verdict is not Verdict.SKIP)
    amounts = joined(_amounts(records[check] for check in claim.amounts if check in records))
    return Shown(claim.name, State.PROVEN, by=proven, amounts=amounts) if proven else None


def why(shown: Shown, records: Iterable[Record]) -> str:
    """Why it is not proven, said once more from the node's records in the language that is spoken."""
    record = None if spoken() == "en" else next((each for each in records if each.check in shown.by[:1]), None)
    if record is None or shown.is_ended or shown.left_out or shown.is_waived:
        return phrase(shown.why)
    if shown.state is State.REFUTED:
        return _refuting(record)
    numbers = next((claim.numbers for claim in claims() if claim.name == shown.claim), ())
    return next((each.why for each in _open(record, number=record.check in numbers)), phrase(shown.why))


def _refuting(record: Record) -> str:
    said = record.decisive[0] if record.decisive else None
    return f"{said.part.said}: {said.brief}" if said else record.message


def _amounts(records: Iterable[Record]) -> Iterator[Amount]:
    """What the parts showed, value by value."""
    for record in records:
        for finding in record.findings:
            value = finding.observed
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                noun = "GPU" if finding.part.kind is Kind.GPU else "part"
                yield Amount(finding.quantity, finding.unit, float(value), float(value), len(finding.parts), noun)


def _checks(records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(record.check for record in records)


def speaks(claim: Claim, check: str) -> bool:
    """Whether a check that fails refutes a claim."""
    return (
        check in claim.proving or check in claim.silent or any(fnmatchcase(check, pattern) for pattern in claim.speak)
    )


def _open(record: Record, *, number: bool) -> Iterator[_Open]:
    """Every reason why a check proves nothing of parts on which it did not fail."""
    for finding in record.findings if kinds(record.findings) & _OPEN else ():
        if finding.is_open:
            yield _Open(record.check, _reason(finding))
    if number:
        held = {
            part
            for finding in record.findings
            if finding.is_proof or finding.verdict is Verdict.FAIL
            for part in finding.parts
        }
        for finding in record.findings:
            if finding.verdict in (Verdict.PASS, Verdict.WARN) and not held.issuperset(finding.parts):
                yield _Open(record.check, _not_held(finding))


def _not_held(finding: Finding) -> str:
    if finding.limit is not None and finding.limit.kind is LimitKind.FLOOR:
        floor = with_unit(finding.limit.value, finding.limit.unit)
        source = finding.limit.cited
        return say(
            "the value of a good board is unknown, there is only a floor of {floor} ({source})",
            floor=floor,
            source=source,
        )
    if finding.limit is not None and finding.limit.kind.is_absolute:  # a warning: not good enough to prove it
        return f"{finding.part.said}: {finding.brief}"
    return say("no absolute limit: compared with other nodes or parts only")


def _of_the_site(records: Sequence[Record], asked: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The checks that are not the suite's own, by the claim to which each belongs."""
    own: dict[str, tuple[str, ...]] = {}
    named = {record.check: record.claim for record in records} | dict.fromkeys(
        set(asked).difference(record.check for record in records), ""
    )
    for check, claim in sorted(named.items()):
        if check not in homes():
            own[claim or SITE.name] = (*own.get(claim or SITE.name, ()), check)
    return own


def _reason(finding: Finding) -> str:
    if finding.verdict is Verdict.NOT_JUDGED:
        return phrase(finding.note or finding.text) or say("no limit to judge by")
    return finding.reason or finding.brief


def claims_of_node(
    profile: Profile,
    records: Sequence[Record],
    signed: Callable[[str], str],
    *,
    nodes: int = 1,
    asked: Collection[str] = (),
    by_contract: Collection[str] = (),
) -> tuple[Shown, ...]:
    """What the records of a node show of the claims of a profile.

    Args:
        profile: of the run.
        records: all of the node.
        signed: who accepts that a claim is not proven, in words; empty if no one does.
        nodes: how many the run has.
        asked: the checks that the run was asked for.
        by_contract: of the claims that only contracts ask for, those that one does ask for.
    """
    made = [claim for claim in claims_of(profile) if claim.not_of != nodes]
    made = [claim for claim in made if not claim.asked_by or claim.name in by_contract]
    own = _of_the_site(records, asked)
    site = [check for each in own.values() for check in each]
    made = [replace(claim, proof=(*claim.proof, *own.pop(claim.name, ()))) for claim in made]
    made += [replace(SITE, proof=tuple(check for each in own.values() for check in each))] if own else []
    belonging = {check.id for check in suite.checks_of(profile)}.union(site)
    found = shown(made, records, belonging, frozenset(asked))
    return tuple(
        replace(each, signed=each.signed or signed(each.claim)) if each.state is State.NOT_PROVEN else each
        for each in found
    )
