"""The command line beside pytest: `nodegate bootcheck`, `doctor`, `demo` and so on; see `nodegate --help`."""

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from nodegate.commands import output
from nodegate.errors import UsageError

CANNOT_TELL = 2
TEST, ACCEPT = "test", "accept"
# Each is a module of commands/. Its options are read when it is called: a hook must not wait for the others' imports.
GROUPS = {
    "accept": {
        ACCEPT: "the acceptance of a delivery with a site file: pytest's options",
        TEST: "pytest, if it is not on PATH: the same options and exit codes",
        "doctor": "preflight: can every node be reached, and all be proven?",
        "demo": "judge the recorded demo fleet; 0 if the planted faults are found",
        "show": "the details behind a line of a run's answer",
        "diff": "what changed between two runs: causes and numbers",
        "report": "write the reports of a run again, or a copy without names",
        "verify": "is a paper that of a run folder? 0 equal, 1 differs, 2 cannot tell",
    },
    "every night": {
        "nightly": "idle nodes in their turn; 0 accepted, 1 not, 2 not done, 75 busy",
        "notify": "send what is new in a run to a target of --notice",
        "history": "a node or a part over months; --accept-again",
        "lemons": "what fails again beyond chance? 0 none, 1 some, 2 cannot tell",
        "repaired": "note in the fleet's record what was repaired",
        "record": "the fleet's record over runs: rebuild it from run folders",
        "kubernetes": "what a run says of its nodes, as conditions, events and taints",
        "drain-plan": "the scheduler's commands for what a run rejected; never run",
        "rma": "one archive about a node or a part for its vendor",
    },
    "before a job": {
        "bootcheck": "is this node fit? 0 fit, 1 unfit, 2 could not tell, 75 busy",
        "hook": "for slurm.conf: is this node fit for jobs? drains it if not",
        "demands": "what the site asks of a node, as a file for its hooks",
    },
    "after and during a job": {
        "triage": "job logs and kernel logs: the first error, its node, what to do",
        "watch": "is a training slow or silent? 0 healthy, 1 yes, 2 cannot tell",
        "job": "what is wrong with a job, by its metrics? 0 healthy, 1, 2 as above",
        "gang": "all_reduce over this job's nodes; names the bad one: 0, 1, 2",
        "exec": "one command on all nodes, equal outputs folded; --stacks",
    },
    "look up": {
        "explain": "a check, claim, limit, variable, option, Xid or word of a message",
    },
    "set up": {
        "init": "a site folder to start from",
        "baseline": "learn a baseline from a run, show limits, compare two files",
        "expect": "what is demanded of nodes: learn it from a run, list the items",
        "tools": "what --tools brings to the nodes: fetch cublas",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. An internal error is 2: Python's own 1 would be a verdict on the node."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in (TEST, ACCEPT):
        return int(import_module(f"nodegate.commands.{given[0]}").run(given[1:]))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if given and given[0] == "--version":
            from nodegate.release import suite_version  # noqa: PLC0415 - it takes too long for a hook

            print(f"nodegate {suite_version()}")
            return 0
        _refuse_unknown(given[0] if given else "")
        asked = _parser(given[0]).parse_args(given)
        return int(asked.command(asked))
    except UsageError as said:
        print(f"nodegate: {said}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        output.discard()
    except Exception as fault:  # noqa: BLE001 - as the docstring says
        print(f"nodegate failed ({type(fault).__name__}: {fault}): please report this", file=sys.stderr)
    return CANNOT_TELL


def _parser(called: str) -> argparse.ArgumentParser:
    """The parser, with the options of the command that is called."""
    parser = argparse.ArgumentParser(
        prog="nodegate",
        usage="nodegate [-h] [--version] COMMAND ...",
        description=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, prog="nodegate", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, add_help=name not in (TEST, ACCEPT))
        if name == called:
            module = import_module(f"nodegate.commands.{name.replace('-', '_')}")
            module.add_arguments(command)
            command.set_defaults(command=module.run)
    return parser


def _overview() -> str:
    """What the commands do, by when one uses them, on one screen."""
    lines = ["Is a GPU node fit for production? The main job: pytest --inventory hosts.yaml"]
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<11}{text}" for name, text in commands.items())]
    return "\n".join(lines)


def _refuse_unknown(word: str) -> None:
    """A word that names no command: the command that was meant, or the form for an inventory.

    Raises:
        UsageError: it names none.
    """
    if word in COMMANDS or word.startswith("-"):
        return
    if not word:
        raise UsageError(f"name a command\n{_overview()}")
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to a refusal

    if Path(word).exists() or word.endswith((".yaml", ".yml", ".ini")):
        raise UsageError(f"{word} names no command", hint=f"for its nodes: nodegate test --inventory {word}")
    near = get_close_matches(word, COMMANDS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "nodegate --help lists the commands"
    raise UsageError(f"{word} names no command", hint=hint)


if __name__ == "__main__":
    sys.exit(main())
