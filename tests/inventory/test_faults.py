"""What is wrong in an inventory is said in one line: file, line, path, and what to do."""

import re
from collections.abc import Callable

import pytest

from nodegate.errors import UsageError
from nodegate.inventory import inventory
from nodegate.inventory.inventory import Inventory

Read = Callable[..., Inventory]

STRUCTURE = {
    "all: {host: gpu1}": "hosts:1: all: unknown key 'host' - did you mean hosts?",
    "all:\n  ansible_user: root": "hosts:2: all: unknown key 'ansible_user'",
    "all:\n  hosts:\n    - gpu1": "hosts:2: all.hosts must be a mapping - write one name per line, each",
    "- gpu1\n- gpu2": "hosts:1: an inventory must be a mapping of groups",
    "all: gpu1": "hosts:1: all: a group must be a mapping of hosts, children, vars, not 'gpu1'",
    "all:\n  hosts:\n    gpu1: 10.0.0.1": "hosts:3: all.hosts.gpu1: the variables of a host must be a mapping",
    "all:\n  hosts:\n    17:": 'hosts:3: all.hosts: the name 17 is not text - write "17"',
    "all:\n  hosts:\n    gpu1:\n    gpu1:": "hosts:4: the key 'gpu1' occurs twice - it is already in hosts:3",
    "all:\n  vars: {ansible_group_priority: high}": "hosts:2: all.vars.ansible_group_priority must be a whole number",
    "all:\n  children:\n    a b: {}": "hosts:3: 'a b' is not a valid group name",
    "a:\n  children:\n    b:\n      children:\n        a:\n": "hosts:5: group a would be inside itself",
    "all:\n  hosts:\n    gpu[3:1]:": "hosts:3: all.hosts: 'gpu[3:1]': the range runs backwards",
    "[gpu]\ngpu1\n[gpu:var]\nx=1": "hosts:3: [gpu:var]: unknown kind of section - did you mean vars?",
    "[all:children]\ngpux\n[gpu]\ngpu1": "hosts:2: [all:children] names the group gpux, which is not declared",
    "[gpu]\ngpu1 ansible_user root": "hosts:2: 'ansible_user' is not key=value",
    "[gpu]\ngpu1 x='open": 'hosts:2: "gpu1 x=\'open": no closing quotation',
    "[gpu]\nansible_user=root": "hosts:2: 'ansible_user=root' is not a valid node name - put it below [gpu:vars]",
    "[gpu:vars]\nno equals sign": "hosts:2: [gpu:vars]: 'no equals sign' is not key=value",
    "gpu1\ngpu[1-": "hosts:2: 'gpu[1-': a bracket is not closed",
    "GPU1\ngpu1": "hosts:2: gpu1 and GPU1 differ only in upper and lower case - the other is in hosts:1",
    "# nothing": "hosts: the inventory names no hosts",
}


@pytest.mark.parametrize("text", STRUCTURE)
def test_structure(text, read):
    with pytest.raises(UsageError) as caught:
        _ = read(text).nodes
    assert str(caught.value).startswith(STRUCTURE[text])


NAMES = r"-oProxyCommand=x ../etc a/b a..b .hidden gpu1. gpu1- gpu$(id) gpu;id gpu`id` gpu\x ж1 gpu1:0 gpu1:65536 gpu1:"


@pytest.mark.parametrize("name", [*NAMES.split(), "-x@gpu1", "fd00::1", "a" * 201])
def test_names_that_could_be_options_paths_or_commands(name, read):
    quoted = name.replace("'", "''")
    with pytest.raises(UsageError, match=r"^hosts:3: "):
        read(f"gpu:\n  hosts:\n    '{quoted}': {{}}\n")
    with pytest.raises(UsageError, match=r"^list:1: |^list: "):
        read(f"{name}\n", "list")


NUMBERS = "give numbers from 1 to 65535, 29500 for example"
VARIABLES = {
    "ansible_hots: 10.0.0.1": "gpu1.ansible_hots: unknown variable - did you mean ansible_host?",
    "ansbile_user: root": "gpu1.ansbile_user: unknown variable - did you mean ansible_user?",
    "nodgate_gpus: 8": "gpu1.nodgate_gpus: unknown variable - did you mean nodegate_gpus?",
    "ansible_port: ssh": "gpu1.ansible_port: 'ssh' is not a whole number from 1 to 65535",
    "ansible_port: true": "gpu1.ansible_port: 'True' is not a whole number",
    "ansible_host: -oProxyCommand=id": "gpu1.ansible_host: '-oProxyCommand=id' looks like an option",
    "ansible_host: [a]": "gpu1.ansible_host: must be a single value, not a list or mapping",
    "ansible_user: 'root;id'": "gpu1.ansible_user: 'root;id' is not a user name",
    'ansible_user: "ro\\not"': "gpu1.ansible_user: contains control characters",
    "ansible_connection: winrm": "gpu1.ansible_connection: 'winrm': not a supported connection - known: command, ",
    "ansible_connection: replay": "gpu1.ansible_connection: replay needs nodegate_recordings",
    "ansible_become: perhaps": "gpu1.ansible_become: 'perhaps' is not true or false",
    "{ansible_become: true, ansible_become_method: su}": "gpu1.ansible_become_method: 'su': only sudo is supported",
    "ansible_ssh_timeout: soon": "gpu1.ansible_ssh_timeout: 'soon' is not a number of seconds",
    "ansible_ssh_common_args: -o 'x": "gpu1.ansible_ssh_common_args: no closing quotation",
    "ansible_python_interpreter: python3; id": "gpu1.ansible_python_interpreter: 'python3; id' is not a valid path",
    "nodegate_host_keys: sometimes": "gpu1.nodegate_host_keys: 'sometimes' is unknown - use strict, accept-new, off",
    "nodegate_nics: [[1]]": "gpu1: nodegate_nics: must be a single value, a list of values, or a flat mapping",
    "nodegate_ports: [29500, 65536]": f"gpu1: nodegate_ports: '65536' is not a TCP port - {NUMBERS}",
    "nodegate_ports: 29500-29510": f"gpu1: nodegate_ports: '29500-29510' is not a TCP port - {NUMBERS}",
    "nodegate_ports: true": f"gpu1: nodegate_ports: must be a TCP port or a list of them - {NUMBERS}",
    "nodegate_rdma_port: 65535": "gpu1: nodegate_rdma_port: '65535' is not usable as the first TCP port",
    "nodegate_serial: !vault abc": "gpu1.nodegate_serial: is encrypted, and nodegate has no vault password",
    "nodegate_serial: !other abc": "gpu1.nodegate_serial: has the tag !other",
    "ansible_host: !vault abc": "gpu1.ansible_host: is encrypted",
    "ansible_host: '{{ ip }}'": "gpu1.ansible_host: refers to ip, which the inventory does not set",
    "ansible_host: '{{ x | upper }}'": "gpu1.ansible_host: needs Jinja, but only {{ another_variable }} is replaced",
    "{ansible_host: '{{ a }}', a: '{{ b }}', b: '{{ a }}'}": "gpu1.ansible_host: its references form a loop",
}


@pytest.mark.parametrize("text", VARIABLES)
def test_variables(text, read):
    body = text if text.startswith("{") else f"{{{text}}}"
    found = read(f"gpu:\n  hosts:\n    gpu1:\n      {body}\n")
    with pytest.raises(UsageError) as caught:
        _ = found.nodes
    assert str(caught.value).startswith(f"hosts:4: {VARIABLES[text]}")


@pytest.mark.parametrize("ports", ["29500", "[1, 65535]", "'29500, 29501'", "['29500']", "[]", "''", "null"])
def test_ports_that_can_be_and_none_at_all_are_taken(ports, read):
    (node,) = read(f"gpu:\n  hosts:\n    gpu1: {{nodegate_ports: {ports}}}\n").nodes
    assert node.name == "gpu1"


SECRETS = "password ssh_pass ssh_password become_pass become_password sudo_pass ssh_private_key_passphrase"


@pytest.mark.parametrize("name", [f"ansible_{name}" for name in (*SECRETS.split(), "ssh_private_key")])
def test_a_password_is_refused_without_repeating_it(name, read):
    with pytest.raises(UsageError, match=r"^hosts:2: .*not use passwords.*use an SSH key or agent") as caught:
        _ = read(f"[gpu]\ngpu1 {name}=hunter2").nodes
    assert "hunter2" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"


@pytest.mark.parametrize("value", ["!vault hunter2", "'{{ vault_password }}'"])
def test_an_encrypted_password_is_left_out_with_a_note(value, read):
    found = read(f"gpu: {{hosts: {{gpu1: {{ansible_become_password: {value}}}}}}}")
    assert [node.name for node in found.nodes] == ["gpu1"]
    assert found.notes == ("hosts:1: the password is not used: nodegate needs SSH keys and NOPASSWD sudo",)


def test_another_user_than_root_is_not_become_and_that_is_said(read):
    found = read("gpu: {hosts: {gpu1: {ansible_become: true, ansible_become_user: slurm}}}")
    assert found.nodes[0].connection.become
    assert found.notes == ("hosts:1: ansible_become_user is not used: nodegate can only become root, by sudo -n",)


def test_the_fault_of_a_host_that_is_not_selected_stands_in_nobodys_way(read):
    found = read("gpu1\n[switches]\nsw1 ansible_connection=network_cli ansible_password=x")
    assert [node.name for node in found.select("gpu1")] == ["gpu1"]
    with pytest.raises(UsageError, match="sw1"):
        found.select("all")


def test_two_names_for_one_machine_name_both_lines(read):
    found = read("[gpu]\ngpu1 ansible_host=10.0.0.1\ngpu2 ansible_host=10.0.0.1 ansible_port=22\n")
    with pytest.raises(
        UsageError, match=r"^hosts:3: gpu2 and gpu1 \(hosts:2\) are the same machine: 10\.0\.0\.1 port 22"
    ):
        _ = found.nodes


@pytest.mark.parametrize(
    "text",
    [
        "gpu1 ansible_host=10.0.0.1\ngpu2 ansible_host=10.0.0.1 ansible_port=2222",
        "a ansible_host=10.0.0.1 ansible_ssh_common_args=-Ja\nb ansible_host=10.0.0.1 ansible_ssh_common_args=-Jb",
        "[gpu]\ngpu[1:2]\n[all:vars]\nansible_host=127.0.0.1\nansible_connection=local",
        "[gpu]\ngpu[1:2]\n[all:vars]\nansible_host=127.0.0.1\nansible_connection=replay\nnodegate_recordings=x",
    ],
    ids=["other port", "other jump host", "local", "replay"],
)
def test_one_address_may_be_two_nodes(text, read):
    assert len(read(text).nodes) == 2


def test_a_fault_in_group_vars_names_its_own_file(read):
    for variable, said in (
        ("ansible_port: x", r"gpu1\.ansible_port"),
        ("nodegate_ports: 99999", "gpu1: nodegate_ports"),
    ):
        found = read("[gpu]\ngpu1", files={"group_vars/gpu.yml": f"a: 1\n{variable}\n"})
        with pytest.raises(UsageError, match=rf"^group_vars/gpu\.yml:2: {said}"):
            _ = found.nodes
    with pytest.raises(UsageError, match=r"^host_vars/gpu1:1: a file of variables must be a mapping"):
        _ = read("[gpu]\ngpu1", files={"host_vars/gpu1": "- a\n"}).nodes


@pytest.mark.parametrize(
    ("name", "value"),
    [("ANSIBLE_BECOME", "maybe"), ("ANSIBLE_REMOTE_USER", "-x"), ("ANSIBLE_SSH_COMMON_ARGS", "'open")],
)
def test_a_fault_in_the_environment_names_the_variable(name, value, read):
    with pytest.raises(UsageError, match=f"^{name} in the environment: "):
        _ = read("gpu1", environ={name: value}).nodes


def test_a_missing_file_names_its_neighbour(read, tmp_path):
    read("gpu1", "hosts.yaml.txt", files={"hosts.ini": "gpu1"})
    with pytest.raises(UsageError, match=r"^hosts\.in: cannot read it: No such file.*did you mean hosts\.ini\?"):
        inventory.read(["hosts.in"], environ={})


def test_more_hosts_than_any_cluster_has(read):
    with pytest.raises(UsageError, match=r"^hosts:2: more than 100000 hosts"):
        read("a[1:60000]\nb[1:60000]")


def test_hostile_values_do_not_reach_the_terminal(read):
    with pytest.raises(UsageError) as caught:
        read('gpu: {hosts: {"gpu\\e[2J\\u202e1": }}')
    assert re.fullmatch(r"[ -~]+", str(caught.value))
