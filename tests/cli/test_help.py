"""The help of `nodegate`: every command and every argument of it has a line."""

import argparse

import pytest

from nodegate import cli


def commands(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from commands(each)


def test_every_argument_of_every_command_has_a_line():
    parsers = [
        each for name in cli.COMMANDS if name not in (cli.TEST, cli.ACCEPT) for each in commands(cli._parser(name))
    ]
    assert {parser.prog for parser in parsers} > {f"nodegate {name}" for name in cli.COMMANDS}
    assert {parser.prog for parser in parsers} > {"nodegate baseline learn", "nodegate hook slurm-prolog"}
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                told = {choice.dest for choice in action._choices_actions if choice.help}
                assert told == set(action.choices), parser.prog
            else:
                assert action.help, f"{parser.prog}: {action.option_strings or action.dest}"


@pytest.mark.parametrize("words", [["accept", "--help"], ["test", "-h"]])
def test_of_pytest_it_has_nodegates_own_options(words, capsys):
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert "--burn=TIME" in printed
    assert printed.endswith("pytest's own options: pytest --help\n")
    assert "--maxfail" not in printed
