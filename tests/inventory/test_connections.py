"""Ansible's connection variables, our two, and the environment become a Connection; the rest of ours, expectations."""

import os
from collections.abc import Callable

import pytest

from nodegate.inventory import inventory
from nodegate.inventory.inventory import Inventory
from nodegate.node import Connection

Read = Callable[..., Inventory]


def one(read, variables, **environ):
    return read(f"gpu: {{hosts: {{gpu1: {{{variables}}}}}}}", environ=environ).nodes[0].connection


def test_nothing_said_is_the_default(read):
    node = read("gpu1").nodes[0]
    assert node.connection == Connection()
    assert (node.address, node.origin, node.expected) == ("gpu1", "hosts:1", {})


SSH = ("smart", "paramiko_ssh", "paramiko", "ansible.builtin.ssh")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("ansible_host: 10.0.0.1", Connection(address="10.0.0.1")),
        ("ansible_host: a, ansible_ssh_host: b", Connection(address="b")),  # Ansible takes the last of its names
        ("ansible_port: 2222", Connection(port=2222)),
        ("ansible_user: ubuntu", Connection(user="ubuntu")),
        ("ansible_ssh_user: 'DOMAIN\\ada'", Connection(user="DOMAIN\\ada")),
        ("ansible_private_key_file: /k/id", Connection(key_files=("/k/id",))),
        (
            "ansible_ssh_extra_args: -v, ansible_ssh_common_args: '-o ProxyCommand=\"ssh -W %h:%p -q u@10.0.0.1\"'",
            Connection(ssh_args=("-o", "ProxyCommand=ssh -W %h:%p -q u@10.0.0.1", "-v")),
        ),
        ("ansible_ssh_common_args: '-J a,b -i ~/k'", Connection(ssh_args=("-J", "a,b", "-i", "~/k"))),
        ("ansible_ssh_args: -F /etc/ssh/site", Connection(ssh_args=("-F", "/etc/ssh/site"))),
        ("ansible_become: yes", Connection(become=True)),
        ("ansible_become: 'True', ansible_become_user: slurm", Connection(become=True)),
        ("ansible_become_method: su", Connection()),  # of no importance without become
        ("ansible_python_interpreter: /opt/py/bin/python3.11", Connection(python="/opt/py/bin/python3.11")),
        ("ansible_python_interpreter: /usr/bin/env python3", Connection(python="python3")),
        ("ansible_ssh_timeout: 2.5", Connection(connect_timeout_s=2.5)),
        ("ansible_ssh_retries: 0", Connection(retries=0)),
        ("ansible_host_key_checking: false", Connection(host_keys="off")),
        ("nodegate_host_keys: accept-new", Connection(host_keys="accept-new")),
        ("nodegate_host_keys: strict, ansible_host_key_checking: no", Connection(host_keys="strict")),
        *((f"ansible_connection: {way}", Connection()) for way in SSH),
        ("ansible_connection: ssh-binary", Connection(transport="ssh-binary")),
        ("ansible_user: , ansible_port: ", Connection()),
        ("ansible_host: '{{ ip }}', ip: '10.0.{{ net }}.1', net: 7", Connection(address="10.0.7.1")),
        ("ansible_host: '{{ inventory_hostname }}.local'", Connection(address="gpu1.local")),
    ],
)
def test_variables(variables, expected, read):
    assert one(read, variables) == expected


def test_a_key_in_the_home_folder(read):
    assert one(read, "ansible_private_key_file: ~/.ssh/id").key_files == (os.path.expanduser("~/.ssh/id"),)  # noqa: PTH111


def test_the_environment_stands_behind_the_variables(read):
    environ = {
        "ANSIBLE_REMOTE_USER": "ada",
        "ANSIBLE_SSH_COMMON_ARGS": "-J bastion",
        "ANSIBLE_BECOME": "True",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
    }
    assert one(read, "", **environ) == Connection(user="ada", ssh_args=("-J", "bastion"), become=True, host_keys="off")
    variables = "ansible_user: eve, ansible_ssh_common_args: -v, ansible_become: false, ansible_host_key_checking: true"
    assert one(read, variables, **environ) == Connection(user="eve", ssh_args=("-v",), host_keys="strict")


def test_recordings_are_relative_to_the_inventory_that_names_them(read, tmp_path, monkeypatch):
    text = "[demo]\nnode1\n[demo:vars]\nansible_connection=replay\nnodegate_recordings=../recorded"
    read(text, "site/demo.ini", files={"site/group_vars/demo.yml": "nodegate_gpus: 8"})
    monkeypatch.chdir("/")
    node = inventory.read([str(tmp_path / "site/demo.ini")], environ={}).nodes[0]
    assert node.connection == Connection(transport="replay", recordings=str(tmp_path / "recorded"))
    assert node.expected == {"gpus": 8}


def test_recordings_set_in_group_vars_are_relative_to_the_inventorys_folder(read, tmp_path):
    files = {"site/group_vars/all.yml": "{ansible_connection: replay, nodegate_recordings: recorded}"}
    node = read("node1", "site/hosts", files=files).nodes[0]
    assert node.connection.recordings == str(tmp_path / "site/recorded")


@pytest.mark.parametrize("source", ["localhost", "localhost,", "127.0.0.1,"])
def test_a_bare_localhost_is_this_machine(source):
    assert [node.connection.transport for node in inventory.read([source], environ={}).nodes] == ["local"]


@pytest.mark.parametrize(
    "text", ["localhost:2222", "localhost ansible_host=10.0.0.1", "localhost ansible_connection=ssh"]
)
def test_a_localhost_with_a_way_to_reach_it_is_reached_that_way(text, read):
    assert read(text).nodes[0].connection.transport == "ssh"


def test_expectations_are_the_other_variables_of_ours(read):
    text = """
gpu:
  vars: {nodegate_gpus: 8, nodegate_rack: r1, nodegate_nics: [mlx5_0, mlx5_1], nodegate_gsp: true, nodegate_gone: x}
  hosts:
    gpu1:
      nodegate_serial: 0123456
      nodegate_power_w: {idle: 500, limit: 10200.5}
      nodegate_label: "{{ site }}-{{ inventory_hostname }}"
      nodegate_gone:
      site: fra1
      somebody_elses: 1
"""
    node = read(text).nodes[0]
    assert node.expected == {
        "gpus": 8,
        "rack": "r1",
        "nics": ["mlx5_0", "mlx5_1"],
        "gsp": True,
        "serial": "0123456",
        "power_w": {"idle": 500, "limit": 10200.5},
        "label": "fra1-gpu1",
    }
    assert (node.rack, node.platform) == ("r1", "")


def test_serials_in_an_ini_file_keep_their_letters(read):
    text = "gpu1 nodegate_serial=12e5 nodegate_guid=0x1f nodegate_asset=0042 nodegate_gpus=8 nodegate_gsp=True"
    expected = {"serial": "12e5", "guid": "0x1f", "asset": "0042", "gpus": 8, "gsp": True}
    assert read(text).nodes[0].expected == expected


def test_every_value_knows_where_it_was_set(read):
    text = "all:\n  vars:\n    a: 1\n    b: 1\n  hosts:\n    gpu1:\n      b: 2\n"
    found = read(text, files={"group_vars/all.yml": "# comment\nc: 1\n"})
    assert [found.variables("gpu1").origin(name) for name in "abc"] == ["hosts:3", "hosts:7", "group_vars/all.yml:2"]
