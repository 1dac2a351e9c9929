"""The inventories that are shipped are such as the run takes."""

from pathlib import Path

import pytest

from nodegate.files.paths import INVENTORY, suite_folder
from nodegate.run.prepare import prepare
from nodegate.run.settings import Settings

EXAMPLES = sorted(suite_folder(INVENTORY).glob("example.*"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_read_as_the_run_reads_it(example: Path) -> None:
    prepared = prepare(Settings(inventory=(str(example),)))
    nodes = prepared.judging.nodes
    assert len(nodes) == 129
    assert nodes["gpu004"].rack == "r1"
    assert nodes["gpu130"].expected["serial"] == "0123456"
    assert {node.platform for node in nodes.values()} == {"hgx-h100-8"}
    assert prepared.notes == ()


def test_both_examples_say_the_same() -> None:
    yaml, ini = (prepare(Settings(inventory=(str(file),))).judging.nodes for file in reversed(EXAMPLES))
    assert {name: (node.connection, node.expected, node.groups) for name, node in yaml.items()} == {
        name: (node.connection, node.expected, node.groups) for name, node in ini.items()
    }
