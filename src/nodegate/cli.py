"""The command line beside pytest: `nodegate bootcheck`, `doctor`, `demo` and so on; see `nodegate --help`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module

from nodegate.commands import output
from nodegate.errors import UsageError

CANNOT_TELL = 2
TEST, ACCEPT = "test", "accept"
# Each is a module of commands/. Its options are read when it is called: a hook must not wait for the others' imports.
COMMANDS = {
    ACCEPT: "the acceptance of a delivery with a site file: pytest's options and exit codes",
    "baseline": "learn a baseline from a run, show the limits that apply, compare two files",
    "bootcheck": "is this node fit for a job now? One line; exit 0 fit, 1 unfit, 2 could not tell, 75 busy",
    "doctor": "preflight: can every node be reached and queried?",
    "demands": "what the site asks of a node, as the file that its bootcheck and hooks read",
    "demo": "judge the recorded demo fleet; exit 0 if exactly the planted faults are found",
    "drain-plan": "the commands for Slurm that take out what a run rejected: printed, never run",
    "exec": "one command on all nodes, equal outputs folded; --stacks: where the ranks of a hanging job wait",
    "expect": "what is demanded of the nodes (nodegate_expect): learn it from a signed-off run, list the items",
    "diff": "what changed between two runs: causes that are new, still there or gone, and numbers that moved",
    "history": "a node or a part over months; --accept-again after a change on purpose",
    "hook": "for slurm.conf: is this node fit for jobs? drains it if not",
    "init": "a site folder to start from: inventory, baseline and an example check",
    "job": "what is wrong with a job that runs now, from its metrics? Exit 0 healthy, 1 wrong, 2 cannot tell",
    "lemons": "nodes, boards and racks that fail again beyond chance? Exit 0 none, 1 some, 2 cannot tell",
    "nightly": "the night: idle nodes in their turn; exit 0 all accepted, 1 not all, 2 not done, 75 another runs",
    "notify": "send what is new in a run to a target of --notice",
    "record": "the fleet's record over runs: rebuild adds what run folders hold",
    "repaired": "note in the fleet's record what was repaired on a node or a part",
    "report": "write the reports of a run again, or a copy without serials and names",
    "rma": "one archive about a node or a part for its vendor",
    "show": "the details behind a line of a run's answer",
    TEST: "pytest, if it is not on PATH: the same options, exit codes and files",
    "tools": "what --tools brings to the nodes: fetch cublas",
    "triage": "job logs and kernel logs: the first error, its node, what to do",
    "watch": "is a training slow or silent? Exit 0 healthy, 1 slow or silent, 2 could not tell",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. An internal error is 2: Python's own 1 would be a verdict on the node."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in (TEST, ACCEPT):
        return int(import_module(f"nodegate.commands.{given[0]}").run(given[1:]))
    asked = _parser(given[0] if given else "").parse_args(given)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(asked.command(asked))
    except UsageError as said:
        print(f"nodegate: {said}", file=sys.stderr)
        return CANNOT_TELL
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        output.discard()
        return CANNOT_TELL
    except Exception as fault:  # noqa: BLE001 - as the docstring says
        print(f"nodegate failed ({type(fault).__name__}: {fault}): please report this", file=sys.stderr)
        return CANNOT_TELL


def _parser(called: str) -> argparse.ArgumentParser:
    """The parser, with the options of the command that is called."""
    parser = argparse.ArgumentParser(
        prog="nodegate",
        description="Decides whether a GPU node is fit for production.",
        epilog="The main job: pytest --inventory hosts.yaml, or the same with nodegate test --inventory hosts.yaml",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, add_help=name not in (TEST, ACCEPT))
        if name == called:
            module = import_module(f"nodegate.commands.{name.replace('-', '_')}")
            module.add_arguments(command)
            command.set_defaults(command=module.run)
    return parser


class _Version(argparse.Action):
    """Print the version; looking it up takes too long for a hook."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from nodegate.release import suite_version  # noqa: PLC0415

        print(f"nodegate {suite_version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
