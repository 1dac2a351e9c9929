"""Every launcher has what the others ask of it."""

import re

import pytest

from nodegate.launchers import LAUNCHERS, name_of
from nodegate.measure.groups.launch import RANK
from nodegate.toolbox.tool_list import NAMES, how_to_get


def test_names_are_told_apart():
    names = [name for each in LAUNCHERS.values() for name in (each.name, *each.also)]
    assert len(names) == len(set(names))
    assert all(name_of(other) == each.name for each in LAUNCHERS.values() for other in (each.name, *each.also))
    assert name_of("pbs") == "pbs"


@pytest.mark.parametrize("name", LAUNCHERS)
def test_its_program_is_looked_for_and_how_to_get_it_is_known(name):
    assert name in NAMES
    assert how_to_get([name]) == LAUNCHERS[name].get


def test_the_shell_around_a_rank_knows_its_place_by_any_launcher():
    assert "place=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}\n" in RANK


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS)
def test_each_message_is_a_pattern_of_bounded_length_and_has_a_step(launcher):
    for pattern, step in launcher.refusals:
        re.compile(pattern)
        assert not re.search(r"[^\\]\.[*+]", pattern)
        assert step
