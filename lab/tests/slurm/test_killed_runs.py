"""A run that is killed (SIGKILL) at any moment leaves nothing on its nodes, and no node longer held than it may be.

bench/killed_runs.py does the same at fifty moments.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import needs
from lab.nodes.nodes import why_not
from lab.slurm.cluster import cluster
from lab.slurm.killed import MOST_HELD_S, Site, spread

NODES, MOMENTS = 4, 5


def test_runs_that_are_killed_while_they_hold_four_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.require(why_not())
    with cluster(NODES, tmp_path) as slurm:
        monkeypatch.setenv("PATH", f"{slurm.programs(tmp_path)}:{os.environ['PATH']}")
        site = Site(slurm, tmp_path)
        found = [site.kill(share) for share in spread(MOMENTS, seed=11)]
    assert [each.wrong for each in found] == [()] * MOMENTS
    held = [each for each in found if each.held]
    assert {each.held for each in held} == {NODES}, found
    assert all(0 < each.held_s <= MOST_HELD_S for each in held)
