"""`--notice TARGET` of commands; pytest's is in nodegate.plugin.options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from nodegate.notices.target import Target, parse_all

FORMS = "feishu:, dingtalk:, slack:, webhook:, mailto: or apprise: and an address, @FILE or $NAME; or a program"


def add_notice(command: argparse.ArgumentParser, what: str, option: str = "--notice") -> None:
    """The option. `what` says what a target gets."""
    text = f"{what}; repeatable: {FORMS}"
    command.add_argument(option, dest="notice", action="append", default=[], metavar="TARGET", help=text)


def targets_of(texts: Iterable[str]) -> tuple[Target, ...]:
    """The targets that a command was given; what others can see of them is said on stderr.

    Raises:
        UsageError: one of them cannot be used.
    """
    found = parse_all(texts)
    sys.stderr.writelines(f"nodegate: {each.warning}\n" for each in found if each.warning)
    return found
