"""The site file of a run (--site, else nodegate_site, else site.yaml beside the inventory), its policy and its burn."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nodegate.baseline.merge import Overlay
from nodegate.errors import UsageError
from nodegate.measure.durations import seconds
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.run import Contract
from nodegate.run.conditions import Earlier
from nodegate.run.settings import Settings
from nodegate.site.site_file import Site, beside, read

_VARIABLE = "site"
KEY = "contract.burn_h"


def site_of(settings: Settings, nodes: Iterable[Node]) -> Site | None:
    """The site file of a run, read; None if there is none.

    Raises:
        UsageError: the file is wrong, or the inventory names several.
    """
    file = settings.site or _named(nodes) or beside(settings.inventory, settings.baselines)
    return read(file) if file else None


def of_run(settings: Settings, site: Site | None, earlier: Earlier | None) -> tuple[Settings, Contract]:
    """The settings with the policy of the site file, and what that file says of the acceptance.

    An earlier run that is judged again or resumed keeps what it had, unless there is a file now. Only a delivery is
    held to the file's policy.

    Raises:
        UsageError: its policy is not that of the command line.
    """
    if site is None:
        return _in_languages(settings, earlier.run.contract if earlier else Contract())
    policy = str(site.of("", "policy", ""))
    if policy and settings.profile in (None, Profile.DELIVERY):
        if settings.policy and not _same(policy, settings.policy):
            raise UsageError(
                f"the policy is {policy} here and {settings.policy} on the command line (--policy)",
                file=site.file,
                line=site.policy_line,
                hint="leave out one of them",
            )
        settings = replace(settings, policy=policy)
    return _in_languages(settings, site.contract)


def _in_languages(settings: Settings, contract: Contract) -> tuple[Settings, Contract]:
    """The language of the command line before those of the site file; else English."""
    languages = (settings.lang,) if settings.lang else contract.languages
    return replace(settings, lang=next(iter(languages), "en")), replace(contract, languages=languages)


def _same(one: str, other: str) -> bool:
    return one == other or (Path(one).exists() and Path(one).resolve() == Path(other).resolve())


def _named(nodes: Iterable[Node]) -> Path | None:
    """The file of nodegate_site, relative to the file of the inventory that names it."""
    found: dict[Path, Node] = {}
    for node in nodes:
        if node.settings.site:
            file = Path(node.place(_VARIABLE)[0]).parent / Path(node.settings.site).expanduser()
            found.setdefault(file, node)
    if len(found) > 1:
        (first, one), (_, other) = list(found.items())[:2]
        where = ":".join(map(str, one.place(_VARIABLE)))
        raise other.wrong(f"a run has one site file, and {where} names {first}", variable=_VARIABLE)
    return next(iter(found), None)


def as_agreed(settings: Settings, limits: Overlay, nodes: Sequence[Node]) -> tuple[Settings, tuple[str, ...]]:
    """The settings with the burn that the policy asks for, and a note with its end.

    Recorded nodes are never refused: of them a burn that was too short is not proven.

    Raises:
        UsageError: --burn is less than the policy asks for.
    """
    asked_h = max((float(str(entry[KEY].value)) for _, _, entry in limits.limits if KEY in entry), default=0.0)
    live = any(node.connection.transport != "replay" for node in nodes)
    is_load = (settings.profile or Profile.DELIVERY) is Profile.DELIVERY and not settings.passive
    if not (asked_h and live and is_load) or settings.replay or settings.resume:
        return settings, ()
    if settings.burn and seconds(settings.burn) < asked_h * 3600:
        said = f"--burn {settings.burn}: the policy asks for {asked_h:g} h ({KEY})"
        raise UsageError(said, file=limits.file, hint=f"write --burn {asked_h:g}h, or leave it out")
    if settings.burn:
        return settings, ()
    end = dt.datetime.now().astimezone() + dt.timedelta(hours=asked_h)
    note = f"--burn {asked_h:g}h, as the policy asks: a burn that starts now ends at {end:%Y-%m-%d %H:%M %Z}"
    return replace(settings, burn=f"{asked_h:g}h"), (note,)
