"""The completion of `nodegate` for a shell, from its own parsers. Written by `make docs` below deploy/completion/."""

import argparse
import sys
from importlib import import_module

import shtab

from nodegate import cli


def completion(shell):
    """The script for a shell; `nodegate test` and `accept` take pytest's options, which pytest completes."""
    parser = argparse.ArgumentParser(prog="nodegate")
    commands = parser.add_subparsers()
    for name, text in cli.COMMANDS.items():
        command = commands.add_parser(name, help=text)
        if name not in (cli.TEST, cli.ACCEPT):
            import_module(f"nodegate.commands.{name.replace('-', '_')}").add_arguments(command)
    return shtab.complete(parser, shell)


if __name__ == "__main__":
    sys.stdout.write(completion(sys.argv[1]))
