"""How long a contract asks for the burn: taken without --burn; a shorter --burn is refused before the load."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from nodegate.baseline.overlay import Overlay
from nodegate.errors import UsageError
from nodegate.measure.durations import seconds
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.run.settings import Settings

KEY = "contract.burn_h"


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
