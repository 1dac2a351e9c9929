"""Where an inventory may come from: files told apart by content, lists, folders, stdin, and ansible-inventory."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ansible

from nodegate.errors import UsageError
from nodegate.inventory import inventory, listing
from nodegate.inventory.inventory import Inventory
from nodegate.inventory.sources import kind_of

Read = Callable[..., Inventory]


def names(found):
    return [node.name for node in found.nodes]


def with_ansible():
    return {"PATH": f"{ansible.program().parent}:/usr/bin:/bin", "HOME": "/nonexistent", "ANSIBLE_LOCAL_TEMP": "/tmp/x"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("yaml", text) for text in ("# x\n\nall:\n  hosts:\n", "---\n", "{}", '"all": {}', "all : {}", "- gpu1", "")),
        *(("ini", text) for text in ("gpu1\n[gpu]\ngpu2", "; one\n[gpu:vars]  # another\n", "gpu1 rack=3", "rack = 3")),
        *(("list", text) for text in ("gpu1:22\nroot@gpu2", "gpu[001-128,130]  # all", "[a:c]x\ngpu[1:3]")),
    ],
)
def test_the_content_says_what_a_file_is(kind, text):
    assert kind_of(text) == kind


@pytest.mark.parametrize("name", ["hosts", "hosts.txt", "hosts.yaml", "hosts.ini"])
def test_the_ending_does_not(name, read):
    assert names(read("gpu: {hosts: {gpu1: }}", name)) == ["gpu1"]
    assert names(read("[gpu]\ngpu2", name)) == ["gpu2"]
    assert names(read("gpu3", name)) == ["gpu3"]


def test_a_plain_list(read):
    found = read("# who\nlogin1\nroot@gpu[001-002]:2222, gpu004\n\n gpu[007,009] # two\n")
    assert [(node.name, node.connection.user, node.connection.port, node.origin) for node in found.nodes] == [
        ("login1", None, None, "hosts:2"),
        ("gpu001", "root", 2222, "hosts:3"),
        ("gpu002", "root", 2222, "hosts:3"),
        ("gpu004", None, None, "hosts:3"),
        ("gpu007", None, None, "hosts:5"),
        ("gpu009", None, None, "hosts:5"),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("gpu1,", ["gpu1"]),
        ("gpu[001-003,007],login1", ["gpu001", "gpu002", "gpu003", "gpu007", "login1"]),
        ("ada@10.0.0.1:2222, gpu1", ["10.0.0.1", "gpu1"]),
    ],
)
def test_a_list_on_the_command_line(source, expected):
    assert names(inventory.read([source], environ={})) == expected


def test_a_comma_list_of_files(read):
    read("gpu1", "a.txt", files={"b.txt": "gpu2"})
    assert names(inventory.read(["a.txt,b.txt"], environ={})) == ["gpu1", "gpu2"]


@pytest.mark.parametrize("text", ["gpu1\ngpu2\n", "[gpu]\ngpu[1:2]\n", "gpu: {hosts: {'gpu[1:2]': }}"])
def test_stdin(text):
    found = inventory.read(["-"], stdin=io.StringIO(text), environ={})
    assert names(found) == ["gpu1", "gpu2"]
    assert found.nodes[0].origin.startswith("<stdin>:")


def test_sources_merge_and_a_node_stays_where_it_was_first_named(read):
    read("gpu1\ngpu2 nodegate_rack=r1", "a", files={"b": "gpu: {hosts: {gpu2: {nodegate_rack: r2}, gpu3: }}"})
    found = inventory.read(["a", "b", "gpu1,gpu4"], environ={})
    assert [(node.name, node.rack, node.origin) for node in found.nodes] == [
        ("gpu1", "", "a:1"),
        ("gpu2", "r2", "a:2"),
        ("gpu3", "", "b:1"),
        ("gpu4", "", "gpu1,gpu4"),
    ]


def test_every_file_that_was_read_is_named_with_its_digest(read):
    text, more = "[gpu]\ngpu1\n", "nodegate_gpus: 8\n"
    found = read(text, files={"group_vars/gpu.yml": more})
    assert found.nodes[0].expected == {"gpus": 8}
    assert [(source.path, source.sha256) for source in found.sources] == [
        ("hosts", hashlib.sha256(text.encode()).hexdigest()),
        ("group_vars/gpu.yml", hashlib.sha256(more.encode()).hexdigest()),
    ]


def test_a_file_of_variables_that_is_encrypted_as_a_whole_is_noted(read):
    found = read("gpu1", files={"group_vars/all/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"})
    assert names(found) == ["gpu1"]
    assert found.notes == ("group_vars/all/vault.yml: encrypted as a whole, not read",)


SCRIPT = """#!/bin/sh
echo '{"gpu": {"hosts": ["gpu1", "gpu2"], "children": ["rack1"], "vars": {"nodegate_gpus": 8}},
       "rack1": {"hosts": ["gpu3"]},
       "_meta": {"hostvars": {"gpu1": {"ansible_host": "10.0.0.1"}, "gpu3": {"ansible_port": 2222}}}}'
"""


def program(text):
    Path("dynamic").write_text(text)
    Path("dynamic").chmod(0o755)


def test_a_script_is_asked_through_ansible_inventory(read):
    read("gpu9", "unused", files={"group_vars/rack1.yml": "nodegate_rack: r1"})
    program(SCRIPT)
    found = inventory.read(["dynamic"], environ=with_ansible())
    assert {(node.name, node.address, node.connection.port, node.rack) for node in found.nodes} == {
        ("gpu1", "10.0.0.1", None, ""),
        ("gpu2", "gpu2", None, ""),
        ("gpu3", "gpu3", 2222, "r1"),
    }
    assert {node.expected["gpus"] for node in found.nodes} == {8}
    assert set(found.groups["gpu"]) == {"gpu1", "gpu2", "gpu3"}


def test_a_plugin_file_is_asked_through_ansible_inventory(read):
    hosts = "plugin: ansible.builtin.generator\nhosts: {name: 'gpu{{ n }}'}\nlayers: {n: [1, 2]}\n"
    with pytest.raises(UsageError, match=r"the plugin 'ansible\.builtin\.generator', which needs ansible-inventory"):
        read(hosts, "site.generator.yml")
    found = inventory.read(["site.generator.yml"], environ=with_ansible())
    assert sorted(names(found)) == ["gpu1", "gpu2"]


@pytest.mark.usefixtures("read")
def test_without_ansible_inventory_the_message_says_what_to_do():
    program(SCRIPT)
    with pytest.raises(UsageError, match=r"^dynamic: this file is a program.*install ansible-core.*--list > X\.json"):
        inventory.read(["dynamic"], environ={"PATH": "."})


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(
    ("script", "limit_s", "said"),
    [
        ("echo broken >&2\nexit 3", 60.0, r"ansible-inventory failed \(exit code 0\): .*arse"),
        ("exec sleep 60", 0.5, r".*took longer than 0\.5 s"),
    ],
)
def test_a_script_that_fails_or_hangs_is_reported(script, limit_s, said, monkeypatch):
    monkeypatch.setattr(listing, "TIMEOUT_S", limit_s)
    program(f"#!/bin/sh\n{script}\n")
    with pytest.raises(UsageError, match=f"^dynamic: {said}"):
        inventory.read(["dynamic"], environ=with_ansible())


def test_a_script_that_may_not_be_executed_is_not_read_as_a_list(read):
    with pytest.raises(UsageError, match=r"^dynamic: this is a script that is not executable - chmod \+x dynamic"):
        read(SCRIPT, "dynamic")


def test_the_saved_output_of_ansible_inventory_is_an_inventory(read, tmp_path):
    vault = {"__ansible_vault": "$ANSIBLE_VAULT"}
    hostvars = {"gpu1": {"ansible_port": 2222, "ansible_password": vault}, "gpu2": {}}
    data = {"_meta": {"hostvars": hostvars}, "all": {"children": ["gpu"]}, "gpu": {"hosts": ["gpu1", "gpu2"]}}
    found = read(json.dumps(data), "saved.json")
    assert [(node.name, node.groups, node.connection.port) for node in found.nodes] == [
        ("gpu1", ("gpu",), 2222),
        ("gpu2", ("gpu",), None),
    ]
    assert len(found.notes) == 1


def test_a_link_in_a_circle_is_an_error(tmp_path):
    (tmp_path / "round").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="nest deeper than 8"):
        inventory.read([str(tmp_path)], environ={})
