"""What becomes of a healthy node of which one value is silent: docs/evidence/silent-values.md.

Every value that the probe sends of a healthy node (of parts of one kind, one) is left out, unknown, empty or "not
supported" in turn, and each whole section missing, timed out, denied or empty, on three platforms and in three
profiles, and the node is decided on by claims, without load.

    PYTHONPATH=tests python -m bench.silent_values docs/evidence/silent-values.md [SHARE]

Of a SHARE below 1 the same ones are tried each time.
"""

from __future__ import annotations

import copy
import sys
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.machine import Machine, facts_of
from support.healthy_platforms import CARDS, node_of
from support.judging import baseline_of

from bench.one_value_changes import drawn, field, places, reason, shown_devices
from nodegate import suite
from nodegate.claims.prove import claims_of_node
from nodegate.facts import FACTS
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.measure.registry import is_active
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.claim import State
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.run.decision import decide
from nodegate.subjects.order import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nodegate.records.finding import Record
    from nodegate.suite import Check

PLATFORMS = ("hgx-h100-8", "l40s", "gb200-tray")
PROFILES = (Profile.BOOTCHECK, Profile.NIGHTLY, Profile.DELIVERY)
SILENT: Mapping[str, object] = {
    "missing": None,  # the key is left out
    "unknown": {"why": "failed", "detail": "EIO"},
    "empty": "",
    "not supported": {"why": "not supported", "detail": ""},
}
# The same of a whole section, of which the probe says why it has none.
SECTIONS: Mapping[str, tuple[str, str]] = {
    "missing": ("missing", ""),
    "unknown": ("timeout", "10 s"),
    "not supported": ("denied", "EACCES"),
}
NODE = Node("gpu01")
OUTCOMES = REJECTED, OPEN, WARNED, ACCEPTED = "rejected", "a claim is open", "warned", "as before"
PART = 60  # tries that a process is given at once: equal places one after the other
LATER = "no check of this profile reads it: it is reported at delivery"
PAGE = """# Silent values

Written by `bench/silent_values.py`; do not edit. Each of {fields} values of healthy nodes of three
platforms is left out, unknown, empty or "not supported" in turn, each section missing, timed out,
denied or empty ({total:,} tries), and the node is decided on by its claims in three profiles,
without load and without an order.
{share}
| platform | profile | rejected | a claim is open | warned | as before |
|---|---|---|---|---|---|
{head}
## What changes nothing

By the reason why it may. Without a count in parentheses no form of silence changes anything.

| why | values |
|---|---|
{kept}"""


class Tried(NamedTuple):
    """One silent value, and what was decided."""

    platform: str
    profile: Profile
    name: str
    silence: str
    outcome: str
    said: str  # the claim that it opens or refutes
    why: str  # it may change nothing; empty where it changes something, and where there is no reason


@cache
def healthy(platform: str) -> Machine:
    """The healthy node of a platform."""
    return node_of(platform, Machine.pcie_l40s if platform in CARDS else Machine.hgx_h100)


@cache
def checks_of(profile: Profile) -> tuple[Check, ...]:
    """The checks that need no load."""
    return tuple(check for check in suite.checks_of(profile) if not is_active(check.asks_for))


def records_of(made: Machine, profile: Profile, checks: Iterable[Check]) -> dict[str, Record]:
    """What the checks say of a node by itself."""
    facts = facts_of(made)
    given = {"node": NODE, "profile": profile, "baseline": baseline_of(facts, NODE), "fleet": Fleet({})}

    def resolve(name: str) -> object:
        if name == "ordered":
            return order_of(NODE, facts)
        return given[name] if name in given else facts.get(name)

    return {check.id: judge(check, resolve, NODE.name) for check in checks}


@cache
def before(platform: str, profile: Profile) -> Mapping[str, Record]:
    """The records of the healthy node."""
    return records_of(healthy(platform), profile, checks_of(profile))


def claims(records: Mapping[str, Record], profile: Profile) -> dict[str, State]:
    """The claims that the records speak to, as they are proven, refuted or open."""
    found = claims_of_node(profile, tuple(records.values()), lambda _: "")
    return {each.claim: each.state for each in found if not each.left_out}


def reads(check: Check, section: str) -> bool:
    """Whether this section can change what a check says: the limits rest on the GPUs, the devices and the machine."""
    asked = set(check.asks_for)
    sections = {each for name in asked & FACTS.keys() for each in FACTS[name].sections}
    return section in sections or "ordered" in asked or section in {"nvml", "pci", "system"}


def changed(platform: str, where: Sequence[str | int], silence: str) -> Machine:
    """The node with one silent value, or a whole section that says nothing."""
    made = node_of(platform, Machine.pcie_l40s if platform in CARDS else Machine.hgx_h100)
    made.sections = copy.deepcopy(made.sections)  # equal readings of a made-up node are one object
    if len(where) == 1:
        section = str(where[0])
        if silence == "empty":
            made.sections[section] = {"lines": []} if section == "kernel_log" else type(made.sections[section])()
            made.units = {} if section == "services" else made.units
        else:
            made.section_fails(section, *SECTIONS[silence])
        return made
    at: Any = made.sections
    for step in where[:-1]:
        at = at[step]
    was = at[where[-1]]
    if silence == "missing":
        del at[where[-1]]
    elif silence == "empty":
        at[where[-1]] = type(was)() if isinstance(was, (list, dict, str)) else ""
    else:
        at[where[-1]] = dict(SILENT[silence])  # type: ignore[call-overload]
    return made


@cache
def decided(platform: str, profile: Profile, where: tuple[str | int, ...], silence: str) -> tuple[str, str]:
    """What becomes of the node, and the claim that says so."""
    own, section = before(platform, profile), str(where[0])
    checks = [check for check in checks_of(profile) if reads(check, section)]
    records = {**own, **records_of(changed(platform, where, silence), profile, checks)}
    was, now = claims(own, profile), claims(records, profile)
    worse = [name for name, state in now.items() if state is not State.PROVEN and was.get(name) is State.PROVEN]
    worse += [name for name in was if name not in now]
    verdict = decide(NODE.name, tuple(records.values())).verdict
    if verdict is NodeVerdict.REJECTED:
        return REJECTED, worse[0] if worse else ""
    if worse or verdict is NodeVerdict.INCOMPLETE:
        return OPEN, worse[0] if worse else ""
    warned = any(
        record.verdict is Verdict.WARN and own[name].verdict is not Verdict.WARN for name, record in records.items()
    )
    return (WARNED if warned else ACCEPTED), ""


def cases() -> list[tuple[str, Profile, tuple[str | int, ...], str]]:
    """Every silent value that is tried, of platforms, profiles and forms of silence."""
    found = []
    for platform in PLATFORMS:
        made = healthy(platform)
        wholes: list[tuple[str | int, ...]] = [(section,) for section in made.sections]
        for where in [*wholes, *places(made.sections, shown_devices(made))]:
            if len(where) > 1 and where[-1] in {"why", "detail", "nvml"}:  # of a reading that is silent already
                continue
            found += [(platform, profile, where, silence) for profile in PROFILES for silence in SILENT]
    return found


def tried(some: Iterable[tuple[str, Profile, tuple[str | int, ...], str]]) -> Iterator[Tried]:
    """Each of these, decided."""
    for platform, profile, where, silence in some:
        outcome, said = decided(platform, profile, where, silence)
        name, why = field(where, shown_devices(healthy(platform))), ""
        if outcome == ACCEPTED:
            is_later = (
                profile is not Profile.DELIVERY and decided(platform, Profile.DELIVERY, where, silence)[0] != outcome
            )
            why = LATER if is_later else reason(name)
        yield Tried(platform, profile, name, silence, outcome, said, why)


def unexplained(outcomes: Iterable[Tried]) -> list[str]:
    """The values whose silence changes nothing, without a reason."""
    return sorted({each.name for each in outcomes if each.outcome == ACCEPTED and not each.why})


def page(outcomes: Sequence[Tried], share: str = "") -> str:
    """The page: how many silences end how, and which change nothing, with the reason."""
    counts = Counter((each.platform, each.profile, each.outcome) for each in outcomes)
    head = "".join(
        f"| {platform} | {profile.value} | {' | '.join(str(counts[platform, profile, each]) for each in OUTCOMES)} |\n"
        for platform in PLATFORMS
        for profile in PROFILES
    )
    tries, rows = Counter(each.name for each in outcomes), defaultdict[str, list[str]](list)
    kept = Counter((each.name, each.why) for each in outcomes if each.outcome == ACCEPTED)
    for (name, why), count in sorted(kept.items()):
        rows[why].append(f"`{name}`" if count == tries[name] else f"`{name}` ({count} of {tries[name]})")
    table = "".join(f"| {why} | {', '.join(names)} |\n" for why, names in sorted(rows.items()))
    return PAGE.format(share=share, fields=len(tries), total=len(outcomes), head=head, kept=table)


def _all(some: Sequence[tuple[str, Profile, tuple[str | int, ...], str]]) -> list[Tried]:
    return list(tried(some))


def main() -> None:
    """Try all of them and write the page; 1 where a silence that changes nothing has no reason."""
    some, share = drawn(cases(), float(sys.argv[2]) if len(sys.argv) > 2 else 1)
    with ProcessPoolExecutor() as pool:
        outcomes = [
            each for part in pool.map(_all, (some[at : at + PART] for at in range(0, len(some), PART))) for each in part
        ]
    Path(sys.argv[1]).write_text(page(outcomes, share), "utf-8")
    if missing := unexplained(outcomes):
        sys.exit(f"no reason in REASONS for the silence of: {', '.join(missing)}")


if __name__ == "__main__":
    main()
