"""The table of claims, checks/claims.yaml: what must be proven, and which checks prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nodegate import suite
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.paths import CHECKS, suite_folder
from nodegate.files.strict_yaml import Loaded
from nodegate.files.typed_yaml import mapping, names, text
from nodegate.profile import TIERS, Profile
from nodegate.records.claim import BESIDE, Claim

FILE = "claims.yaml"
_LOST = "install nodegate again: a file of checks/ is damaged or missing; a check goes together with its line here"
_WORDS = (
    *("title", "tier", "proof", "numbers", "silent_ok", "rests_on", "speak", "amounts", "needs", "tools", "nodes"),
    *("asked_by", "not_of"),
)
SITE = Claim("site", "the site's own checks", "bootcheck")  # of those that name no other claim
METRICS = Claim(BESIDE, "the job's metrics name nothing on it", "bootcheck")  # beside the verdict (run/metrics.py)


def claims_of(profile: Profile) -> tuple[Claim, ...]:
    """The claims of a profile, in the order of the table; of troubleshoot there are none.

    Raises:
        UsageError: the table of this installation is not as it should be, with file and line.
    """
    if profile is Profile.TROUBLESHOOT:  # it looks for what is wrong, and accepts nothing
        return ()
    return tuple(claim for claim in claims() if profile.includes(claim.tier))


@cache
def claims() -> tuple[Claim, ...]:
    """The table of this installation's suite.

    Raises:
        UsageError: it is not as it should be, with file and line, or names a check that no check file has.
    """
    path = suite_folder(CHECKS) / FILE
    found = read(path)
    for claim in found:
        lost = [check for check in (*claim.proving, *claim.silent) if not suite.has(check)]
        if lost:
            said = f"it has no {', '.join(lost)}, which must prove {claim.name}"
            subject = lost[0].partition(".")[0]
            raise UsageError(said, file=str(path.with_name(f"test_{subject}.py")), hint=_LOST)
    return found


def titles() -> dict[str, str]:
    """The title of each claim that a run can make, by its name."""
    return {claim.name: claim.title for claim in (*claims(), SITE, METRICS)}


@cache
def homes() -> Mapping[str, str]:
    """The one claim to which each check of the suite belongs, by the check's id."""
    return {check: claim.name for claim in claims() for check in claim.home_of}


def read(path: Path) -> tuple[Claim, ...]:
    """A table of claims.

    Raises:
        UsageError: it cannot be read, or a line of it is not as it should be, with file and line.
    """
    loaded = strict_yaml.load_file(path)
    entries = mapping(loaded, (), loaded.value, "claims", hint="name: {title: .., tier: .., proof: [check, ..]}")
    found = tuple(_claim(loaded, name, entry) for name, entry in entries.items())
    for check, count in Counter(check for claim in found for check in claim.home_of).items():
        if count > 1:
            said, hint = f"{check} belongs to {count} claims", "name it in one, and under rests_on in the others"
            raise UsageError(said, file=str(path), hint=hint)
    return found


def _claim(loaded: Loaded, name: str, value: object) -> Claim:
    entry = mapping(loaded, (name,), value, "a claim", _WORDS, hint=f"with {', '.join(_WORDS)}")
    if entry.get("tier") not in TIERS:
        raise loaded.wrong(f"tier is one of {', '.join(TIERS)}", (name, "tier"))
    numbers = mapping(loaded, (name, "numbers"), entry.get("numbers", {}), "numbers", hint="a check: [keys of limits]")
    silent = mapping(loaded, (name, "silent_ok"), entry.get("silent_ok", {}), "silent_ok", hint="a check: the reason")
    limits = tuple((check, names(loaded, (name, "numbers", check), keys)) for check, keys in numbers.items())
    proof = names(loaded, (name, "proof"), entry.get("proof", []))
    if not (proof or limits):
        raise loaded.wrong(f"nothing proves {name}", (name,), "give it proof or numbers")
    return Claim(
        name,
        title=text(loaded, (name, "title"), entry.get("title")),
        tier=str(entry["tier"]),
        proof=proof,
        numbers=tuple(check for check, _ in limits),
        silent_ok=tuple((check, text(loaded, (name, "silent_ok", check), why)) for check, why in silent.items()),
        rests_on=names(loaded, (name, "rests_on"), entry.get("rests_on", [])),
        speak=names(loaded, (name, "speak"), entry.get("speak", [])),
        limits=limits,
        amounts=names(loaded, (name, "amounts"), entry.get("amounts", [])),
        needs=text(loaded, (name, "needs"), entry.get("needs", "-")).removeprefix("-"),
        tools=names(loaded, (name, "tools"), entry.get("tools", [])),
        nodes=_count(loaded, (name, "nodes"), entry.get("nodes", 1)),
        asked_by=names(loaded, (name, "asked_by"), entry.get("asked_by", [])),
        not_of=_count(loaded, (name, "not_of"), entry.get("not_of", 0)),
    )


def _count(loaded: Loaded, path: tuple[object, ...], value: object) -> int:
    if type(value) is not int or value < 0:
        raise loaded.wrong(f"{path[-1]} is a number of nodes", path)
    return value
