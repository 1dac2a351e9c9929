"""`python -m lab build` and `python -m lab run -- COMMAND`: the lab from a command line."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.guests.guests import Guests, why_not
from lab.guests.image import SUITES, image
from lab.guests.snapshot import snapshot

MOST_GUESTS = 8


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    asked = _parser().parse_args(arguments)
    reason = why_not()
    if reason:
        print(f"lab: {reason}", file=sys.stderr)
        return 4
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the guests' end is not skipped
    return _build(asked.suite) if asked.command == "build" else _run(asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build image and snapshot where the cache has none")
    run = commands.add_parser("run", help="boot guests, run a command with $INVENTORY, end them; exit code: its own")
    run.add_argument("--guests", type=int, default=2, choices=range(1, MOST_GUESTS + 1), metavar="COUNT")
    run.add_argument("words", nargs="+", metavar="COMMAND", help="on this machine; $INVENTORY names the guests")
    for each in (build, run):
        each.add_argument("--suite", action="append", choices=SUITES, help="Debian release, in turn; repeatable")
    return parser


def _build(suites: list[str] | None) -> int:
    for suite in suites or SUITES[:1]:
        begun_s = time.monotonic()
        built = image(suite)
        image_s = time.monotonic() - begun_s
        stored = snapshot(built)
        print(f"{suite}: image {built.folder} in {image_s:.1f} s")
        print(f"{suite}: snapshot {stored.folder} in {time.monotonic() - begun_s - image_s:.1f} s")
    return 0


def _run(asked: argparse.Namespace) -> int:
    suites = asked.suite or SUITES[:1]
    with tempfile.TemporaryDirectory(prefix="nodegate-lab-") as folder, Guests(asked.guests, suites) as lab:
        inventory, known_hosts = Path(folder, "hosts.yaml"), Path(folder, "known_hosts")
        known_hosts.write_text(lab.known_hosts())
        inventory.write_text(lab.inventory(known_hosts))
        print(f"lab: {len(lab.guests)} guests up in {lab.started_s:.1f} s", file=sys.stderr)
        return subprocess.run(asked.words, env={**os.environ, "INVENTORY": str(inventory)}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
