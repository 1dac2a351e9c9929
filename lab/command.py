"""`python -m lab`: build the lab, run a command in it, repeat runs over its healthy machines."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lab import fault_table, healthy
from lab.guests import guests as of_guests
from lab.guests import qemu
from lab.guests.guests import Guests
from lab.guests.image import SUITES
from lab.guests.image import image as guest_image
from lab.guests.snapshot import snapshot
from lab.nodes import gpus
from lab.nodes import nodes as of_nodes
from lab.nodes.image import image as node_image
from lab.nodes.nodes import Nodes
from lab.scratch import scratch
from lab.slurm import config as slurm

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_GUESTS, MOST_NODES = 8, 250
CANNOT = 4  # as pytest's code of a usage error


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the machines' end is not skipped
    if asked.command == "table":
        print(fault_table.page(fault_table.read(asked.rows)), end="")
        return 0
    reason = (asked.guests and of_guests.why_not()) or (asked.nodes and of_nodes.why_not())
    if reason:
        print(f"lab: {reason}", file=sys.stderr)
        return CANNOT
    return {"build": _build, "run": _run, "healthy": _healthy}[asked.command](asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build what the cache lacks: root file systems, guests' snapshot")
    run = commands.add_parser("run", help="boot machines, run a command with $INVENTORY, end them; exit code: its own")
    quiet = commands.add_parser("healthy", help="runs in a row over healthy machines; exit code 1 at any alarm")
    commands.add_parser("gpu", help="nodegate's programs on this machine's own GPUs (make gpu); python3 is enough")
    table = commands.add_parser("table", help="the page of the injected faults, from what the tests have noted")
    table.add_argument("rows", type=Path)
    for each, default in ((build, 1), (run, 0), (quiet, 0)):
        each.add_argument("--guests", type=int, default=default, choices=range(MOST_GUESTS + 1), metavar="COUNT")
        each.add_argument("--nodes", type=int, default=default, choices=range(MOST_NODES + 1), metavar="COUNT")
        each.add_argument(
            "--suite", action="append", choices=SUITES, help="guests' Debian release, in turn; repeatable"
        )
    run.add_argument("words", nargs="+", metavar="COMMAND", help="on this machine; $INVENTORY names the lab's")
    quiet.add_argument("--runs", type=int, default=20)
    return parser


def _build(asked: argparse.Namespace) -> int:
    if asked.nodes:
        with _timed("nodes: root file system"):
            node_image()
        for release, suite in slurm.RELEASES.items():
            with _timed(f"nodes: root file system with Slurm {release}"):
                node_image(slurm.PACKAGES, suite)
    if asked.guests:
        with _timed("guests: QEMU"):
            qemu.tree()
    for suite in (asked.suite or SUITES[:1]) if asked.guests else ():
        with _timed(f"guests: {suite}: root file system and kernel"):
            built = guest_image(suite)
        with _timed(f"guests: {suite}: booted snapshot"):
            snapshot(built)
    return 0


def _run(asked: argparse.Namespace) -> int:
    with scratch() as folder:
        if asked.nodes:
            with Nodes(node_image(), asked.nodes, folder, gpus.prepare) as lab:
                inventory = lab.inventory([node.name for node in lab.nodes], {})
                return _within(folder, inventory, lab.space.in_network(*asked.words))
        with Guests(asked.guests, asked.suite or SUITES[:1]) as running:
            (folder / "known_hosts").write_text(running.known_hosts())
            return _within(folder, running.inventory(folder / "known_hosts"), asked.words)


def _within(folder: Path, inventory: str, words: list[str]) -> int:
    """The exit code of a command to which $INVENTORY names the machines."""
    file = folder / "hosts.yaml"
    file.write_text(inventory)
    ends_with_us = ["setpriv", "--pdeathsig", "TERM", *words]
    return subprocess.run(ends_with_us, env={**os.environ, "INVENTORY": str(file)}, check=False).returncode


@contextmanager
def _timed(what: str) -> Iterator[None]:
    begun_s = time.monotonic()
    yield
    print(f"lab: {what}: {time.monotonic() - begun_s:.1f} s", flush=True)


def _healthy(asked: argparse.Namespace) -> int:
    alarms = 0
    with scratch() as folder:
        for what, count, repeat in (
            ("nodes, whole suite", asked.nodes, healthy.nodes),
            ("guests, whole suite", asked.guests, healthy.guests),
            ("guests, rdma_bandwidth", asked.guests, healthy.links),
        ):
            for number, run in enumerate(repeat(asked.runs, count, folder) if count else (), start=1):
                said = f"{run.verdicts} verdicts, {len(run.alarms)} alarms, {run.took_s:.1f} s"
                print(f"{count} {what}, run {number} of {asked.runs}: {said}", *run.alarms, sep="\n  ", flush=True)
                alarms += len(run.alarms)
    return 1 if alarms else 0
