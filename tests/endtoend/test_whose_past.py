"""Whose past is whose, over nodes that boot a real systemd: a board that moves, a node renamed, a node installed again.

Four runs with one record: as it was; GPU 3 of both nodes swapped; gpu-1 renamed; the same machine with another system.
"""

import re
import secrets

import pytest

from lab import needs
from lab.nodes import gpus
from lab.nodes.image import image
from lab.nodes.nodes import Nodes, why_not
from lab.run import Run
from nodegate import cli

OTHER_SYSTEM = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The record of the four runs, and the serial numbers of the two boards, as each was made with."""
    needs.require(why_not())
    folder = tmp_path_factory.mktemp("past")
    with Nodes(image(), 2, folder, gpus.prepare) as lab:
        one, other = lab.nodes
        run(lab, folder)
        has_board_of(one, other)
        has_board_of(other, one)
        run(lab, folder)
        one.run("hostname", "renamed")
        run(lab, folder, name="renamed")
        (one.root / "etc/machine-id").write_text(f"{secrets.token_hex(16)}\n")
        (one.root / "etc/os-release").unlink()
        (one.root / "etc/os-release").write_text(OTHER_SYSTEM)
        run(lab, folder, name="renamed")
        yield folder / "site/reports/fleet.sqlite", str(gpus.serial(one, 3)), str(gpus.serial(other, 3))


def has_board_of(node, other):
    scenario = gpus.scenario(node)
    scenario.set(3, "serial", gpus.serial(other, 3)).set(3, "uuid", gpus.uuid(other, 3)).write(
        node.root / gpus.SCENARIO
    )


def run(lab, folder, name="gpu-1"):
    inventory = lab.inventory([node.name for node in lab.nodes], {}).replace("    gpu-1:", f"    {name}:")
    asked = ("-p", "lab.slow_probe", "--passive", "--tb=no")
    outcome = Run(folder / "site", inventory, *asked, within=lab.space.in_network()).outcome()
    assert name in outcome.output, outcome.output


def history(record, name, capsys):
    assert cli.main(["history", name, "--record", str(record)]) == 0
    return capsys.readouterr().out


def test_a_board_that_moved_has_been_in_both_nodes(site, capsys):
    record, *boards = site
    for board, places in zip(boards, (["gpu-1", "gpu-2"], ["gpu-2", "gpu-1", "renamed"]), strict=True):
        found = re.findall(rf"{board}: GPU 3 of (\S+) from", history(record, board, capsys))
        assert found == places


def test_a_machine_that_was_renamed_and_installed_again_is_the_same(site, capsys):
    said = history(site[0], "renamed", capsys)
    assert said.startswith("renamed (S/N SN00000001)\n")
    assert "4 runs from" in said
    assert history(site[0], "gpu-2", capsys).startswith("gpu-2 (S/N SN00000002)\n")
    assert "chassis of gpu-1" in history(site[0], "SN00000001", capsys)
