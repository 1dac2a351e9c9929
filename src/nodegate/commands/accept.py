"""`nodegate accept`: the acceptance of a delivery with a site file. Everything after the word goes to pytest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.commands import test

if TYPE_CHECKING:
    from collections.abc import Sequence

WRONG_USE = 4  # as pytest's


def run(arguments: Sequence[str]) -> int:
    """Do what `pytest --profile delivery ARGUMENTS` does; the exit code is pytest's.

    Without --inventory the nodes are those of `night.inventory` in the site file.
    """
    from nodegate.errors import UsageError  # noqa: PLC0415
    from nodegate.site.site_file import NAME, read  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="nodegate accept", allow_abbrev=False, add_help=False)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--profile", default="delivery")
    for name in ("--inventory", "--replay", "--resume"):
        parser.add_argument(name, action="append", default=[])
    asked, rest = parser.parse_known_args(arguments)
    given = ["--profile", "delivery", *arguments]
    try:
        if asked.profile != "delivery":
            raise UsageError("an acceptance has profile delivery", hint="for another: nodegate test --profile ...")
        site = asked.site or (Path(NAME) if Path(NAME).is_file() else None)
        if not (asked.inventory or asked.replay or asked.resume or {"--help", "-h"} & set(rest)):
            nodes = read(site).of("night", "inventory", ()) if site else ()
            if not nodes:
                raise UsageError("no nodes: name an inventory", hint=f"--inventory FILE, or night.inventory in {NAME}")
            given += [word for each in nodes for word in ("--inventory", each)]
            given += [] if asked.site else ["--site", str(site)]
    except UsageError as said:
        print(f"nodegate: {said}", file=sys.stderr)
        return WRONG_USE
    return test.run(given)
