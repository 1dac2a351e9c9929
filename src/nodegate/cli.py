"""The command line beside pytest: `nodegate bootcheck`, `doctor`, `demo` and so on; see `nodegate --help`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

CANNOT_TELL = 2
TEST = "test"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. An internal error is 2: Python's own 1 would be a verdict on the node."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] == TEST:
        return _test(given[1:])
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
        _nobody_reads()
        return CANNOT_TELL
    except Exception as fault:  # noqa: BLE001 - as the docstring says
        print(f"nodegate failed ({type(fault).__name__}: {fault}): please report this", file=sys.stderr)
        return CANNOT_TELL


def _nobody_reads() -> None:
    """The reader of standard output is gone: leave nothing on which Python could fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(command: str) -> argparse.ArgumentParser:
    """The parser; if the first word is a command, of that one only: a hook must not wait for the others' imports."""
    parser = argparse.ArgumentParser(
        prog="nodegate",
        description="Decides whether a GPU node is fit for production.",
        epilog="The main job: pytest --inventory hosts.yaml, or the same with nodegate test --inventory hosts.yaml",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    adding = {
        "baseline": _add_baseline,
        "bootcheck": _add_bootcheck,
        "doctor": _add_doctor,
        "demo": _add_demo,
        "hook": _add_hook,
        "init": _add_init,
        "report": _add_report,
        "show": _add_show,
        TEST: _add_test,
        "triage": _add_triage,
        "watch": _add_watch,
    }
    for add in [adding[command]] if command in adding else adding.values():
        add(commands)
    return parser


class _Version(argparse.Action):
    """Print the version; looking it up takes too long for a hook."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from nodegate.release import suite_version  # noqa: PLC0415

        print(f"nodegate {suite_version()}")
        parser.exit()


def _add_test(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """For the list of commands: everything after the word goes to pytest, including --help."""
    commands.add_parser(
        TEST, help="pytest, if it is not on PATH: the same options, exit codes and files", add_help=False
    )


def _test(arguments: Sequence[str]) -> int:
    """Do what `pytest ARGUMENTS` does, through pytest's entry point, for its handling of signals and closed output."""
    import runpy  # noqa: PLC0415 - a hook must not wait for it
    from importlib import metadata  # noqa: PLC0415

    try:
        metadata.distribution("nodegate")
        plugin = []
    except metadata.PackageNotFoundError:  # a checkout on PYTHONPATH
        plugin = ["-p", "nodegate.plugin"]
    sys.argv = ["pytest", *plugin, *arguments]
    try:
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _add_baseline(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from nodegate.baseline_command import add_arguments, run  # noqa: PLC0415

    command = commands.add_parser(
        "baseline", help="learn a baseline from a run, show the limits that apply, compare two files"
    )
    add_arguments(command)
    command.set_defaults(command=run)


def _add_bootcheck(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "bootcheck",
        help="is this node fit for a job now? One line; exit 0 fit, 1 unfit, 2 could not tell, 75 busy",
    )
    command.add_argument("--json", action="store_true", help="the answer as one JSON object, with every record")
    command.add_argument("-v", "--verbose", action="store_true", help="all causes, one per line, after the answer")
    command.add_argument("--active", action="store_true", help="also put load on the GPUs: about a minute more")
    command.add_argument("--baseline", action="append", default=[], type=Path, metavar="FILE", help="more baselines")
    command.add_argument("--platform", default="", metavar="NAME", help="the platform, instead of recognising it")
    command.set_defaults(command=_bootcheck)


def _bootcheck(asked: argparse.Namespace) -> int:
    from nodegate.bootcheck import bootcheck  # noqa: PLC0415

    expected = {"platform": asked.platform} if asked.platform else {}
    outcome = bootcheck(baselines=asked.baseline, expected=expected, active=asked.active)
    try:
        shown = "\n".join(outcome.lines) if asked.verbose else outcome.line
        print(outcome.to_json() if asked.json else shown, flush=True)
    except BrokenPipeError:  # the exit code says the same
        _nobody_reads()
    return int(outcome.exit)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("doctor", help="preflight: can every node be reached and queried?")
    option = command.add_argument
    option("--inventory", action="append", required=True, metavar="FILE|HOST,HOST|-", help="the nodes; repeatable")
    option("--nodes", default="", metavar="PATTERN", help="a subset: gpu[001-128], gpu:!gpu005:&rack1, a group")
    option(
        "--baseline", action="append", default=[], type=Path, metavar="FILE", help="baselines of the run; repeatable"
    )
    option(
        "--host-keys",
        default="strict",
        choices=["strict", "accept-new", "off"],
        help="how to treat unknown SSH host keys",
    )
    option("--known-hosts", type=Path, metavar="FILE", help="host keys of this project, in addition to the user's own")
    option("--openssh-config", type=Path, metavar="FILE", help="SSH configuration instead of ~/.ssh/config")
    option("--tools", type=Path, metavar="DIR", help="tools that a run would bring to the nodes")
    command.set_defaults(command=_doctor)


def _doctor(asked: argparse.Namespace) -> int:
    from nodegate import doctor  # noqa: PLC0415
    from nodegate.run.settings import Settings  # noqa: PLC0415

    settings = Settings(
        inventory=tuple(asked.inventory),
        nodes=asked.nodes,
        baselines=tuple(asked.baseline),
        host_keys=asked.host_keys,
        known_hosts=asked.known_hosts,
        ssh_config=asked.openssh_config,
        tools=asked.tools,
    )
    return doctor.run(settings, stdin=sys.stdin)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "demo", help="judge the recorded demo fleet; exit 0 if exactly the planted faults are found"
    )
    command.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="where the run folder goes (default: reports/<time>-delivery)"
    )
    command.set_defaults(command=_demo)


def _demo(asked: argparse.Namespace) -> int:
    from nodegate.demo.show import show  # noqa: PLC0415

    return show(asked.run_dir)


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("show", help="the details behind a line of a run's answer")
    text = "a node, a cause's id, or a part's serial number, PCI address or name"
    command.add_argument("wanted", metavar="NODE|CAUSE", help=text)
    command.add_argument(
        "--run", type=Path, default=Path("reports/latest"), metavar="DIR", help="the run folder (default %(default)s)"
    )
    command.add_argument("--all", action="store_true", help="all findings that follow from a cause, not the first 20")
    command.set_defaults(command=_show)


def _show(asked: argparse.Namespace) -> int:
    from nodegate.causes.details import details  # noqa: PLC0415
    from nodegate.report.jsonl import read  # noqa: PLC0415
    from nodegate.text import visible  # noqa: PLC0415

    for text in details(read(asked.run / "results.jsonl"), asked.wanted, everything=asked.all):
        print(visible(text))
    return 0


def _add_triage(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from nodegate.triage.command import add_arguments  # noqa: PLC0415

    command = commands.add_parser("triage", help="job logs and kernel logs: the first error, its node, what to do")
    add_arguments(command)
    command.set_defaults(command=_triage)


def _triage(asked: argparse.Namespace) -> int:
    from nodegate.triage.command import run  # noqa: PLC0415

    return run(asked)


def _add_watch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from nodegate.watch.options import add_arguments  # noqa: PLC0415

    command = commands.add_parser(
        "watch", help="is a training slow or silent? Exit 0 healthy, 1 slow or silent, 2 could not tell"
    )
    add_arguments(command)
    command.set_defaults(command=_watch)


def _watch(asked: argparse.Namespace) -> int:
    from nodegate.watch.command import watch  # noqa: PLC0415
    from nodegate.watch.options import from_arguments  # noqa: PLC0415

    return watch(from_arguments(asked))


def _add_hook(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from nodegate.hook.command import add_arguments  # noqa: PLC0415

    command = commands.add_parser("hook", help="for slurm.conf: is this node fit for jobs? drains it if not")
    add_arguments(command)
    command.set_defaults(command=_hook)


def _hook(asked: argparse.Namespace) -> int:
    from nodegate.hook.command import run  # noqa: PLC0415

    said = run(asked)
    try:
        print(said.line, flush=True)
    except OSError:  # the exit code says the same
        _nobody_reads()
    return said.exit


def _add_init(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("init", help="a site folder to start from: inventory, baseline and an example check")
    command.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    command.set_defaults(command=_init)


def _init(asked: argparse.Namespace) -> int:
    from nodegate.site.make import make  # noqa: PLC0415

    make(asked.folder)
    print(f"cd {asked.folder}  # write your nodes into hosts.yaml, then: {_pytest()} --inventory hosts.yaml")
    return 0


def _pytest() -> str:
    """How a run is started on this machine: pipx puts only `nodegate` on PATH."""
    from shutil import which  # noqa: PLC0415

    return "pytest" if which("pytest") else f"nodegate {TEST}"


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "report", help="write the reports of a run again, or a copy without serials and names"
    )
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    command.add_argument("--redact", action="store_true", help="leave out serials, addresses and user names")
    command.add_argument(
        "--to", type=Path, metavar="DIR", help="output folder (default: RUN; RUN-redacted with --redact)"
    )
    command.set_defaults(command=_report)


def _report(asked: argparse.Namespace) -> int:
    from nodegate.report.rerender import rerender  # noqa: PLC0415

    print(rerender(asked.run, redacted=asked.redact, to=asked.to) / "report.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
