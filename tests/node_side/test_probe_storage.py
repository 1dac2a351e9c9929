"""Section `storage`: a file is written, read back and removed in folders of real file systems, good and bad ones."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from node_side.test_probe_tree import beside_a_dead_mount, needs_fuse

from nodegate.node_program import PYTHON_OPTIONS
from nodegate.probe.collect import decode, program

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NOBODY = 65534


def written(*folders, before=()):
    command = [*before, sys.executable, *PYTHON_OPTIONS, "-"]
    source = program(sections=["storage"], folders=[str(each) for each in folders])
    ran = subprocess.run(command, input=source, capture_output=True, timeout=60, check=True)
    found: dict[str, Any] = decode(ran.stdout).sections["storage"]["data"]  # type: ignore[index]
    return found


@pytest.fixture
def mounted(tmp_path):
    """Mounts a tmpfs with options, and takes all of them away at the end."""
    points: list[Path] = []

    def mount(options):
        point = tmp_path / f"mount{len(points)}"
        point.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "nodegate-test", point], check=True)
        points.append(point)
        return point

    yield mount
    for point in points:
        subprocess.run(["umount", point], check=True)


def test_a_file_is_written_and_nothing_is_left(tmp_path):
    found = written(tmp_path)[str(tmp_path)]
    assert found["same"] is True
    assert 0 < found["write_s"] < 60
    assert not list(tmp_path.iterdir())
    assert written() == {}


@needs_root
def test_it_is_written_as_the_owner_of_the_folder(tmp_path):
    """By a root that a file server would take for nobody: it has no right of its own to the folders of others."""
    own, closed = tmp_path / "own", tmp_path / "closed"
    for folder, uid, mode in ((own, NOBODY, 0o700), (closed, NOBODY, 0o500)):
        folder.mkdir(mode=mode)
        os.chown(folder, uid, uid)
    tmp_path.chmod(0o711)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    found = written(own, closed, before=("setpriv", "--bounding-set", "-dac_override,-dac_read_search"))
    assert (found[str(own)]["same"], found[str(closed)]["why"]) == (True, "denied")
    assert not list(own.iterdir())


@needs_root
def test_what_cannot_be_written_is_told(mounted, tmp_path):
    full, small, fixed, few = (mounted(each) for each in ("size=64m", "size=20m", "ro", "nr_inodes=2"))
    (few / "the only one").touch()
    found = written(full, small, fixed, few, tmp_path / "none")
    assert found[str(full)]["same"] is True
    details = [found[str(each)]["detail"].partition(": ")[2] for each in (small, fixed, few, tmp_path / "none")]
    read_only = "Read-only file system"
    assert details == ["less than 40 MiB are free", read_only, "No space left on device", "No such file or directory"]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to("/tmp")
    found = written(tmp_path / "link")[str(tmp_path / "link")]
    assert found["why"] == "missing"


@needs_fuse
def test_a_file_server_that_does_not_answer_costs_its_own_limit(tmp_path):
    dead, good = tmp_path / "dead", tmp_path / "good"
    good.mkdir()
    _, sections = beside_a_dead_mount(tmp_path, sections=["storage"], folders=[str(dead), str(good)])
    found = sections["storage"]["data"]
    assert found[str(dead)]["why"] == "hung"
    assert found[str(dead)]["detail"].endswith(f"open {dead}")
    assert found[str(good)]["same"] is True
