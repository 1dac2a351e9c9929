"""What a night is to do, from the command line and the site file."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.measure.durations import LONGEST_BURN_S, seconds
from nodegate.past.record import DEFAULT
from nodegate.site.site_file import LONGEST_CYCLE_S, LONGEST_KEPT_S, NAME, Site, beside, read

WITHIN_S, EVERY_S = 2 * 3600.0, 7 * 86400.0


@dataclass(frozen=True)
class NightSettings:
    """What a night is to do. Times are in seconds.

    `within_s`: the night ends after it. `every_s`: how often each node is to be tested. `most_nodes` are under load at
    once, 0: all that are idle. `keep_s`: for how long run folders of nights are kept, 0: for ever. `options` are
    pytest's and nodegate's own for the runs.
    """

    inventory: tuple[str, ...]
    nodes: str = ""
    within_s: float = WITHIN_S
    every_s: float = EVERY_S
    most_nodes: int = 0
    keep_s: float = 0.0
    delay_s: float = 0.0
    record: Path = DEFAULT
    notices: tuple[str, ...] = ()
    lang: str = "en"
    options: tuple[str, ...] = ()


def settings(asked: argparse.Namespace) -> NightSettings:
    """The settings: what the command line has, else the site file, else what is built in.

    Raises:
        UsageError: an option or the site file is wrong, or no inventory is named.
    """
    file = asked.site or beside(asked.inventory)
    site = read(file) if file else Site()
    inventory = tuple(asked.inventory) or site.of("night", "inventory", ())
    if not inventory:
        raise UsageError("no nodes: name an inventory", hint=f"--inventory FILE, or night.inventory in {NAME}")
    if asked.most_nodes is not None and asked.most_nodes < 1:
        raise UsageError(f"--most-nodes {asked.most_nodes}: at least 1")

    def time(option: str, most_s: float, block: str, key: str, otherwise: float) -> float:
        given = getattr(asked, option)
        return seconds(given, f"--{option}", most_s=most_s) if given else site.of(block, key, otherwise)

    return NightSettings(
        inventory,
        asked.nodes or site.of("night", "nodes", ""),
        time("within", LONGEST_BURN_S, "night", "within", WITHIN_S),
        time("every", LONGEST_CYCLE_S, "night", "every", EVERY_S),
        asked.most_nodes or site.of("night", "most_nodes", 0),
        time("keep", LONGEST_KEPT_S, "record", "keep", 0.0),
        time("delay", 86400.0, "night", "delay", 0.0),
        asked.record or site.of("record", "file", DEFAULT),
        tuple(asked.notice) or site.of("notices", "to", ()),
        asked.lang or site.of("notices", "lang", site.of("", "languages", ("en",))[0]),
        tuple(asked.options) or site.of("night", "options", ()),
    )
