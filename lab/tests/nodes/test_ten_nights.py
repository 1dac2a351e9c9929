"""Ten nights by a set clock, word for word; to accept new words read the difference: NODEGATE_WRITE_GOLDEN=1."""

import os
from pathlib import Path

import pytest

from lab import nights
from lab.nodes import gpus
from lab.nodes.image import image
from lab.nodes.nodes import Nodes, why_not
from lab.run import ROOT

PAGE = ROOT / "docs/evidence/ten-nights.md"


def test_ten_nights_are_as_the_page_has_them(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with Nodes(image(), nights.NODES, tmp_path, gpus.prepare) as lab:
        text = "".join(nights.pages(lab, tmp_path / "site")).rstrip() + "\n"
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        PAGE.write_text(text)
    assert text == PAGE.read_text()
