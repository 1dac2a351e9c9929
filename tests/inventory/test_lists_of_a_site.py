"""Lists of hosts that sites have: of Slurm, kubectl and /etc/hosts; hosts that are no nodes; our examples."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from nodegate.errors import UsageError
from nodegate.files.paths import INVENTORY, suite_folder
from nodegate.inventory import inventory
from nodegate.inventory.inventory import Inventory
from nodegate.run.prepare import prepare
from nodegate.run.settings import Settings

Read = Callable[..., Inventory]

NO_LISTS = {
    "h200-a07 1 batch idle": "'h200-a07 1 batch idle': 1 is a number, not a node",
    "gpu01 idle*": "'idle*' is the state of a node",
    "gpu01 drained$": "'drained$' is the state of a node",
    "gpu01 batch 0.01": "0.01 is a number, not a node",
    "gpu01 Ready <none> 3d v1.30": "'Ready' is the state of a node",
    "gpu01 Ready,SchedulingDisabled": "'Ready' is the state of a node",
    "batch* up infinite 3 idle gpu[01-03]": "3 is a number, not a node",
    "1": "1 is a number, not a node",
    "NODELIST": "this is a heading",
    "127.0.0.1 localhost": "an address and names of one node",
    "gpu01 10.0.0.1": "an address and names of one node",
    "::1 localhost ip6-localhost": "an address and names of one node",
}
SLURM = [
    "NodeName=gpu001",
    "NodeName=gpu[001-004] Gres=gpu:h100:8",
    "ClusterName=site\nNodeName=gpu001",
    "PartitionName=batch Nodes=gpu[001-004] Default=YES",
]
LISTS = {
    "h1 h2 h3": ["h1", "h2", "h3"],
    "h1, h2,h3": ["h1", "h2", "h3"],
    "10.0.0.1 10.0.0.2": ["10.0.0.1", "10.0.0.2"],
    "idle": ["idle"],
    "ops@gpu01 gpu02:2222": ["gpu01", "gpu02"],
    "gpu01 # 8 up idle": ["gpu01"],
    "gpu1\n\n# 10.0.0.1 gpu9\ngpu2": ["gpu1", "gpu2"],
}


@pytest.mark.parametrize("row", NO_LISTS)
def test_a_row_of_a_table_is_refused_with_what_to_type(row, read):
    with pytest.raises(UsageError) as refused:
        read(f"good1\n{row}\n")
    said = str(refused.value)
    assert said.startswith("hosts:2: ")
    assert NO_LISTS[row] in said
    assert said.endswith("as `sinfo -h -N -o %N | sort -u` prints them")


def test_on_standard_input_and_in_one_argument_too():
    with pytest.raises(UsageError, match=r"^<stdin>:1: .*1 is a number"):
        inventory.read(["-"], stdin=io.StringIO("gpu01 1 batch idle\n"), environ={})
    with pytest.raises(UsageError, match=r"^gpu01,2: .*2 is a number"):
        inventory.read(["gpu01,2"], environ={})


@pytest.mark.parametrize("text", SLURM)
def test_lines_of_slurm_are_recognised(text, read):
    with pytest.raises(UsageError, match=r"^hosts:1: '.*' is a line of Slurm - .*sinfo -h -N -o %N"):
        read(text)


@pytest.mark.parametrize("text", LISTS)
def test_lists_stay_readable(text, read):
    assert list(read(text).names) == LISTS[text]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.0.1.1", "localhost.localdomain", "ip6-localhost"])
@pytest.mark.parametrize("text", ["gpu1\n{}", "[gpu]\ngpu1\n[site]\n{}", "gpu: {{hosts: {{gpu1: , {}: }}}}"])
def test_this_machine_among_others_is_judged_only_if_that_is_said(text, name, read):
    found = read(text.format(name))
    assert [node.name for node in found.select("gpu1")] == ["gpu1"]
    with pytest.raises(UsageError, match=f"^hosts:[0-9]: {name} among other nodes is this machine"):
        _ = found.nodes


@pytest.mark.parametrize(
    ("source", "how"),
    [("localhost,gpu1", "local"), ("127.0.0.1,", "local"), ("127.0.1.1,", "ssh")],
)
def test_what_is_typed_is_meant(source, how):
    assert inventory.read([source], environ={}).nodes[0].connection.transport == how


@pytest.mark.parametrize("text", ["localhost", "[all]\nlocalhost", "localhost ansible_connection=local\ngpu1"])
def test_a_file_may_say_it_too(text, read):
    assert read(text).nodes[0].connection.transport == "local"


def test_a_number_is_no_name_in_an_ansible_inventory_either(read):
    with pytest.raises(UsageError, match=r"^hosts:2: 17 is a number, not a name or address - write its ansible_host"):
        _ = read("[gpu]\n17\n").nodes
    assert read("[gpu]\n17 ansible_host=10.0.0.17\n").nodes[0].address == "10.0.0.17"


OTHERS = """
all:
  vars: {ansible_user: admin}
  children:
    compute:
      hosts:
        tray-[01:04]:
    others:
      hosts:
        leaf: {ansible_connection: ansible.netcommon.network_cli}
        win: {ansible_connection: winrm}
        bmc: {ansible_host: 10.77.0.1, ansible_password: changeme}
        slip: {ansible_hots: 10.0.0.1}
        odd: {ansible_host: a b}
        port: {ansible_port: 70000}
        jinja: {ansible_host: "{{ lookup('env', 'X') }}"}
        loop: {ansible_host: "{{ a }}", a: "{{ a }}"}
        gpus: {nodegate_ports: 99999}
        order: {nodegate_expect: {kernel: []}}
        su: {ansible_become: true, ansible_become_method: su}
        key: {ansible_ssh_private_key: text}
        replay: {ansible_connection: replay}
        twin1: {ansible_host: 10.9.9.9}
        twin2: {ansible_host: 10.9.9.9}
        LEAF:
        localhost:
        "17":
"""


@pytest.mark.parametrize("pattern", ["compute", "tray-*", "tray-[01-04]", "all:!others"])
def test_a_host_that_is_not_selected_stops_nothing(pattern, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hosts.yml").write_text(OTHERS, encoding="utf-8")
    Path("host_vars").mkdir()
    Path("host_vars/leaf.yml").write_text("{", encoding="utf-8")
    ready = prepare(Settings(inventory=("hosts.yml",), nodes=pattern))
    assert list(ready.judging.nodes) == ["tray-01", "tray-02", "tray-03", "tray-04"]
    assert {"win", "bmc", "localhost"} <= set(ready.judging.others)


OTHER_NAMES = [
    *("leaf", "win", "bmc", "slip", "odd", "port", "jinja", "loop", "gpus", "order", "su", "replay", "localhost", "17"),
    *("twin*", "leaf,LEAF"),
]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_each_of_them_is_refused_where_it_is_selected(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hosts.yml").write_text(OTHERS, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        prepare(Settings(inventory=("hosts.yml",), nodes=name))
    assert str(refused.value).startswith("hosts.yml:")
    assert name.split(",", maxsplit=1)[0].rstrip("*") in str(refused.value)


EXAMPLES = sorted(suite_folder(INVENTORY).glob("example.*"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_read_as_the_run_reads_it(example):
    prepared = prepare(Settings(inventory=(str(example),)))
    nodes = prepared.judging.nodes
    assert len(nodes) == 129
    assert (nodes["gpu004"].rack, nodes["gpu130"].expected["serial"]) == ("r1", "0123456")
    assert {node.platform for node in nodes.values()} == {"hgx-h100-8"}
    assert prepared.notes == ()


def test_both_examples_say_the_same():
    yaml, ini = (prepare(Settings(inventory=(str(file),))).judging.nodes for file in reversed(EXAMPLES))
    assert {name: (node.connection, node.expected, node.groups) for name, node in yaml.items()} == {
        name: (node.connection, node.expected, node.groups) for name, node in ini.items()
    }
