"""docs/guide/adding-a-platform.md can be followed: its file is read, recognised and shown."""

import re
from pathlib import Path

import pytest
from support.hardware import NVSWITCH, host_seen, pci_seen
from support.pages import Page

from nodegate.baseline.baseline import Baselines
from nodegate.cli import main
from nodegate.node import Node

PAGE = Page("adding-a-platform.md")
((NAME, TEXT),) = PAGE.files.items()
PLATFORM = Path(NAME).stem
H200 = pci_seen(*["10de:2335"] * 8, *[NVSWITCH] * 4)


@pytest.fixture
def baselines(tmp_path):
    file = tmp_path / NAME
    file.parent.mkdir()
    file.write_text(TEXT)
    return Baselines.read([file])


def test_the_node_is_recognised_by_its_vendor_and_the_board_by_itself(baselines):
    lenovo = host_seen("Lenovo", "ThinkSystem SR680a V3")
    assert baselines.for_node(Node("n"), None, H200, lenovo).platform == PLATFORM
    other = host_seen("Supermicro", "SYS-821GE")
    assert baselines.for_node(Node("n"), None, H200, other).platform == "hgx-h200-8"


def test_its_limits_are_its_own_and_then_those_of_the_board(baselines):
    named = baselines.for_node(Node("n", expected={"platform": PLATFORM}), None, None)
    board = baselines.for_node(Node("n", expected={"platform": "hgx-h200-8"}), None, None)
    assert named.limit("rdma.rails").value == 4
    assert board.limit("rdma.rails").value == 8
    assert named.limit("gpu.count").value == board.limit("gpu.count").value == 8


def test_the_command_of_the_page_shows_it(tmp_path, capsys):
    words = PAGE.block("sh").split()
    (tmp_path / NAME).parent.mkdir()
    (tmp_path / NAME).write_text(TEXT)
    words[words.index(NAME)] = str(tmp_path / NAME)
    assert words[0] == "nodegate"
    assert main(words[1:]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^rdma\.rails: 4 ports\n.*order 4711", shown, re.MULTILINE)
    assert re.search(r"^gpu\.count: 8 GPUs\n.*hgx-h200-8\.yaml", shown, re.MULTILINE)
