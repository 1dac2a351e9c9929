"""`--nodes`: hostlists, groups and Ansible patterns, over one inventory."""

from collections.abc import Callable

import pytest
from support import ansible

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import fold
from nodegate.inventory.inventory import Inventory

Read = Callable[..., Inventory]

FLEET = """
login1
[gpu]
gpu[001:012]
[rack1]
gpu[001:004]
[rack2]
gpu[005:008]
[racks:children]
rack1
rack2
[empty]
"""

LIKE_ANSIBLE = {
    "all": "gpu[001-012],login1",
    "rack1": "gpu[001-004]",
    "rack*": "gpu[001-008]",
    "gpu0?2": "gpu[002,012]",
    "ungrouped": "login1",
    "rack1,login1": "gpu[001-004],login1",
    "gpu:!gpu005": "gpu[001-004,006-012]",
    "gpu:!rack1:!rack2": "gpu[009-012]",
    "gpu:&racks:!gpu002": "gpu[001,003-008]",
    "!gpu": "login1",
    "&rack2,!gpu005": "gpu[006-008]",
    "~gpu0(01|1[0-2])": "gpu[001,010-012]",
    "gpu[0]": "gpu001",
    "gpu[0:3]": "gpu[001-004]",
    "racks[4:5],login1": "gpu[005-006],login1",
    "gpu0*[2:3]": "gpu[003-004]",
}

OURS = {
    "gpu[001-003,012]": "gpu[001-003,012]",
    "gpu[001:003]": "gpu[001-003]",  # padded: names, although there is a group gpu
    "gpu001 gpu002\nlogin1": "gpu[001-002],login1",
    "gpu,!gpu[005-999]": "gpu[001-004]",  # more names than there are may be taken away
    "login1,empty": "login1",
}


@pytest.mark.parametrize("pattern", [*LIKE_ANSIBLE, *OURS])
def test_patterns(pattern, read):
    selected = [node.name for node in read(FLEET).select(pattern)]
    assert fold(selected) == {**LIKE_ANSIBLE, **OURS}[pattern]
    assert selected == sorted(selected, key=read(FLEET).names.index)


def test_ansible_selects_the_same(read, tmp_path):
    read(FLEET)
    for pattern in ("gpu:&racks:!gpu002", "~gpu0(01|1[0-2])", "racks[4:5],login1", "!gpu"):
        theirs = ansible.listing([str(tmp_path / "hosts")], tmp_path, limit=pattern)
        assert fold(ansible.members(theirs, "all")) == LIKE_ANSIBLE[pattern]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("gpus", "no host or group is called 'gpus' - did you mean gpu"),
        ("gpu,!rack3", "no host or group is called 'rack3' - did you mean rack"),
        ("dgx*", r"no host or group is called 'dgx\*'"),
        ("gpu[010-014]", r"not in the inventory: gpu\[013-014\]"),
        ("gpu[100-101]", r"no host or group is called 'gpu\[100-101\]'"),
        ("gpu[50]", "there are only 12 hosts"),
        ("~gpu(", "not a regular expression"),
        ("gpu[001-", "not closed"),
        ("empty", r"no node is left - the inventory has gpu\[001-012\],login1"),
        ("x" * 70_000, "too long"),
    ],
)
def test_patterns_that_select_nothing(pattern, message, read):
    with pytest.raises(UsageError, match=message):
        read(FLEET).select(pattern)


def test_groups_hold_the_hosts_of_their_children_and_nodes_know_their_groups(read):
    found = read(FLEET)
    assert (fold(found.groups["racks"]), found.groups["empty"], len(found.groups)) == ("gpu[001-008]", (), 7)
    assert [node.groups for node in found.select("login1,gpu001,gpu012")] == [(), ("gpu", "rack1", "racks"), ("gpu",)]


def test_a_host_that_is_also_a_group_is_noted(read):
    found = read("[gpu]\ngpu\nother")
    assert [node.name for node in found.select("gpu")] == ["gpu"]
    assert found.notes == ("hosts:2: gpu is both a host and a group; --nodes gpu means the host",)
