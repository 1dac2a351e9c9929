"""The command line beside pytest: `nodegate bootcheck`, `doctor`, `demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

CANNOT_TELL = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        return int(asked.command(asked))
    except UsageError as said:
        print(f"nodegate: {said}", file=sys.stderr)
        return CANNOT_TELL
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from nodegate.conditions import suite_version  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="nodegate",
        description="Decides whether a GPU node may carry work.",
        epilog="The main job is pytest's: pytest --inventory hosts.yaml",
    )
    parser.add_argument("--version", action="version", version=f"nodegate {suite_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_bootcheck(commands)
    _add_doctor(commands)
    _add_demo(commands)
    return parser


def _add_bootcheck(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "bootcheck",
        help="may this node take a job now? One line; exit 0 fit, 1 unfit, 2 could not tell, 75 busy",
    )
    command.add_argument("--json", action="store_true", help="the answer as one JSON object, every record included")
    command.add_argument("--baseline", action="append", default=[], type=Path, metavar="FILE", help="more baselines")
    command.add_argument("--platform", default="", metavar="NAME", help="the platform, instead of finding it")
    command.set_defaults(command=_bootcheck)


def _bootcheck(asked: argparse.Namespace) -> int:
    from nodegate.bootcheck import bootcheck  # noqa: PLC0415

    expected = {"platform": asked.platform} if asked.platform else {}
    outcome = bootcheck(baselines=asked.baseline, expected=expected)
    print(outcome.to_json() if asked.json else outcome.line)
    return int(outcome.exit)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("doctor", help="before anything burns: can every node be reached and asked?")
    command.add_argument("--inventory", action="append", required=True, metavar="FILE|HOST,HOST|-")
    command.add_argument("--nodes", default="", metavar="PATTERN")
    command.add_argument("--host-keys", default="strict", choices=["strict", "accept-new", "off"])
    command.add_argument("--known-hosts", type=Path, default=None, metavar="FILE")
    command.add_argument("--openssh-config", type=Path, default=None, metavar="FILE")
    command.set_defaults(command=_doctor)


def _doctor(asked: argparse.Namespace) -> int:
    from nodegate import doctor, inventory  # noqa: PLC0415
    from nodegate.transport import Options  # noqa: PLC0415

    read = inventory.read(asked.inventory, stdin=sys.stdin)
    nodes = read.select(asked.nodes) if asked.nodes else read.nodes
    options = Options(host_keys=asked.host_keys, known_hosts=asked.known_hosts, ssh_config=asked.openssh_config)
    complaints = doctor.examine(nodes, options)
    for line in doctor.lines(nodes, complaints):
        print(line)
    return int(any(complaint.blocks for complaint in complaints))


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "demo", help="judge the recorded demo fleet; exit 0 when exactly the planted faults show"
    )
    command.add_argument("--run-dir", type=Path, default=None, metavar="DIR")
    command.set_defaults(command=_demo)


def _demo(asked: argparse.Namespace) -> int:
    from nodegate.demo.show import show  # noqa: PLC0415

    return show(asked.run_dir)


if __name__ == "__main__":
    sys.exit(main())
