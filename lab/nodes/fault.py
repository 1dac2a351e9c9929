"""What a fault of a node is, and the ways to set one and take it back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from lab.nodes import gpus
from lab.nodes.node import LabNode
from lab.taken_back import taken_back

if TYPE_CHECKING:
    from pathlib import Path

    from lab.nvml.scenario import Scenario

Fault = Callable[[LabNode], AbstractContextManager[dict[str, str]]]


@taken_back
def served(node: LabNode, scenario: Scenario) -> Iterator[None]:
    """NVML says this for a while."""
    scenario.write(node.root / gpus.SCENARIO)
    yield
    gpus.scenario(node).write(node.root / gpus.SCENARIO)


@taken_back
def holding(file: Path, text: str) -> Iterator[None]:
    """The file holds this text for a while; written in place: an overlay sees no other file of that name."""
    kept = file.read_text()
    file.write_text(text)
    yield
    file.write_text(kept)


@taken_back
def added(file: Path, text: str) -> Iterator[None]:
    """A file that is there for a while."""
    file.write_text(text)
    yield
    file.unlink()


@taken_back
def without(file: Path) -> Iterator[None]:
    """The file is not there for a while."""
    away = file.with_name(file.name + ".away")
    file.rename(away)
    yield
    away.rename(file)


@taken_back
def hidden(node: LabNode, folder: str, paths: list[str]) -> Iterator[None]:
    """A folder of the node shows for a while nothing of these paths below it: an overlay with their whiteouts."""
    name = f"hidden{folder.replace('/', '-')}"
    for path in paths:
        whiteout = node.hardware / name / path
        whiteout.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(whiteout, 0o020000, os.makedev(0, 0))
    node.run("mount", "-t", "overlay", "-o", f"ro,lowerdir=/hardware/{name}:{folder}", "hidden", folder)
    yield
    node.run("umount", "--lazy", folder)
    shutil.rmtree(node.hardware / name)
