"""`nodegate accept`: the acceptance of a delivery with a site file. Everything after the word goes to pytest."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nodegate.commands import test
from nodegate.errors import UsageError
from nodegate.site.site_file import NAME, read

WRONG_USE = 4  # as pytest's


def run(arguments: Sequence[str]) -> int:
    """Do what `pytest --profile delivery ARGUMENTS` does; the exit code is pytest's.

    Without --inventory the nodes are those of `night.inventory` in the site file.
    """
    parser = argparse.ArgumentParser(prog="nodegate accept", allow_abbrev=False, add_help=False)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--profile", default="delivery")
    for name in ("--inventory", "--replay", "--resume"):
        parser.add_argument(name, action="append", default=[])
    asked, rest = parser.parse_known_args(arguments)
    try:
        site = asked.site or (Path(NAME) if Path(NAME).is_file() else None)
        is_told = asked.inventory or asked.replay or asked.resume or {"--help", "-h"} & set(rest)
        nodes = read(site).of("night", "inventory", ()) if site and not is_told else ()
    except UsageError as broken:
        return _refuse(broken)
    if asked.profile != "delivery":
        return _refuse(
            UsageError("an acceptance has profile delivery", hint="for another: nodegate test --profile ...")
        )
    if not (is_told or nodes):
        hint = f"--inventory FILE, or night.inventory in {NAME}"
        return _refuse(UsageError("no nodes: name an inventory", hint=hint))
    given = [word for each in nodes for word in ("--inventory", each)]
    given += ["--site", str(site)] if nodes and not asked.site else []
    return test.run(["--profile", "delivery", *arguments, *given])


def _refuse(said: UsageError) -> int:
    print(f"nodegate: {said}", file=sys.stderr)
    return WRONG_USE
