"""A wall clock that is set, for what takes days. Only programs that are started so see it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cache

if TYPE_CHECKING:
    from lab.nodes.node import LabNode

_SOURCE = Path(__file__).with_name("later.c")
_ON_NODES = "/usr/lib/x86_64-linux-gnu/liblater.so"


def library() -> Path:
    """The compiled library that a program preloads."""

    def make(fresh: Path) -> None:
        fresh.mkdir()
        options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["gcc", *options, "-o", fresh / "liblater.so", _SOURCE, "-ldl"], check=True, timeout=120)

    return cache.kept("clock", cache.key(_SOURCE.read_bytes()), make) / "liblater.so"


def environment(later_s: float) -> dict[str, str]:
    """The environment of a program whose clock is that much later."""
    return {**os.environ, "LD_PRELOAD": str(library()), "NODEGATE_LAB_LATER_S": str(int(later_s))}


def set_on(node: LabNode, later_s: float) -> None:
    """What is started on a node from now on sees this clock."""
    shutil.copy(library(), f"{node.root}{_ON_NODES}")
    (node.root / "etc/later-by").write_text(f"{int(later_s)}\n")
    (node.root / "etc/ld.so.preload").write_text(f"{_ON_NODES}\n")
