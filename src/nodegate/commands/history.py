"""`nodegate history`: what nodes measured in earlier runs, and accepting them again as they are now."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from nodegate.history import History, Key

_FEW = 8  # of the first and of the newest values, whose means are shown


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("nodes", nargs="+", metavar="NODE", help="a node, or a list such as gpu[001-008]")
    command.add_argument(
        "--history", type=Path, default=None, metavar="FILE", help="the index (default reports/history.sqlite)"
    )
    command.add_argument(
        "--accept-again",
        metavar="REASON",
        help="from now on compare them with their next runs, not with those of before: after a repair, a power cap or"
        " an update that changed their speed on purpose; the reason is kept",
    )


def run(asked: argparse.Namespace) -> int:
    """Print the past of the nodes, or accept them again.

    Raises:
        UsageError: the index cannot be read, or knows nothing of a node.
    """
    from nodegate.history import DEFAULT, History  # noqa: PLC0415
    from nodegate.inventory.hostlist import expand  # noqa: PLC0415
    from nodegate.text import counted, visible  # noqa: PLC0415

    nodes = [name for each in asked.nodes for name in expand(each)]
    history = History(asked.history or DEFAULT)
    if asked.accept_again is not None:
        reason = " ".join(asked.accept_again.split())
        if not reason:
            raise UsageError("--accept-again needs a reason", hint='such as --accept-again "power cap of 600 W"')
        history.accept_again(nodes, dt.datetime.now(tz=dt.timezone.utc).timestamp(), reason)
        print(f"{counted(len(nodes), 'node')} accepted again: the next run in which nothing is wrong")
        print("with them is what later ones are compared with")
        return 0
    for node in nodes:
        sys.stdout.writelines(f"{visible(line)}\n" for line in _lines(history, node))
    return 0


def _lines(history: History, node: str) -> Iterator[str]:
    again = history.accepted_again(node)
    yield node
    for each in again:
        day = dt.datetime.fromtimestamp(each.epoch_s, tz=dt.timezone.utc).date().isoformat()
        yield f"  accepted again on {day}: {each.reason}"
    kept = history.earlier(node, math.inf)
    if not kept:
        yield "  no run since then"
    for key, values in sorted(kept.items()):
        if values:
            yield f"  {_line(key, values)}"


def _line(key: Key, values: Sequence[float]) -> str:
    from nodegate.metric_names import words  # noqa: PLC0415
    from nodegate.numbers.comparison import shown  # noqa: PLC0415

    device, name, conditions, unit = key
    few = max(1, min(_FEW, len(values) // 2))
    first, newest = mean(values[:few]), mean(values[-few:])
    change = f", {100 * (newest - first) / first:+.1f} %" if first else ""
    under = _conditions(conditions)
    of = f"first and newest {few} of {len(values)} kept" if len(values) > 1 else "one run"
    said = f"{device or 'node'}: {words(name)} {shown(first, unit)} -> {shown(newest, unit)}{change} ({of})"
    return f"{said}; {under}" if under else said


def _conditions(written: str) -> str:
    """The conditions of a series in words; as they are written where the index is damaged or was edited."""
    try:
        known = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return ", ".join(f"{name} {value}" for name, value in known.items()) if isinstance(known, dict) else written
