"""The reader means what Ansible means: hosts, groups and merged variables equal those of `ansible-inventory --list`."""

import random

import pytest
from support import ansible

from nodegate.inventory import inventory

CASES: dict[str, dict[str, str]] = {
    "yaml: ranges, padding, step, letters, several brackets, ports": {
        "hosts.yaml": """
            all:
              hosts:
                login1:
                gpu[001:008]:
                  ansible_user: ubuntu
                r[1:2]n[01:05:2]:
                dgx-[a:c]:
                node[:2]:
                10.0.0.[10:12]:
                edge1:2222:
              vars:
                rack: r0
        """,
    },
    "yaml: hosts as text, empty bodies, several top-level groups, one host in several groups": {
        "hosts.yaml": """
            gpu:
              hosts: gpu[1:3]
              children:
              vars:
            rack1:
              hosts:
                gpu1: {slot: 7}
                gpu2:
            spare:
            login:
              children: rack1
        """,
    },
    "yaml: ansible_group_priority, then the name, decide between groups of one depth": {
        "hosts.yaml": """
            all:
              children:
                aaa: {vars: {x: a, y: a, ansible_group_priority: 10}, hosts: {gpu1: }}
                bbb: {vars: {x: b, y: b}, hosts: {gpu1: }}
        """,
    },
    "yaml: anchors and merge keys": {
        "hosts.yaml": """
            gpu:
              hosts:
                gpu1: &common {ansible_user: ubuntu, nodegate_gpus: 8}
                gpu2: {<<: *common, nodegate_gpus: 4}
                gpu3: *common
        """,
    },
    "ini: the types and quotes of inline variables": {
        "hosts": """
            gpu1 a=1 b=1.5 c=True d=yes e="two words" f='single' g= h=0x10 i=[1,2] j={'k':1} k=None l=1e3 m=007 n=a=b
            gpu2 ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p -q ubuntu@10.0.0.1"'
            gpu3 x="[1, 'two', (3, 4)]" y="'quoted twice'" z=#comment
            gpu4:2200 path=C:\\\\x tail=end   # comment
            ; another comment
            [h:children]
            g   # before its declaration
            [g]     # a comment
            gpu1
            [g:vars]
            text = some words, "with quotes" # and a hash
            number = 42
            literal = ["a", 'b', {"c": 3}]
            quoted = "whole"
            flag = False
        """,
    },
    "group_vars and host_vars: files, folders, every ending, over the inventory's own": {
        "hosts.yaml": """
            all:
              vars: {v: all, w: all}
              children:
                parent:
                  vars: {v: parent}
                  children:
                    gpu:
                      vars: {v: gpu, u: gpu}
                      hosts:
                        gpu1: {v: host, t: host}
                        gpu2: {t: host}
        """,
        "group_vars/all.yml": "{w: file-all, v: file-all, p: file-all, q: file-all}",
        "group_vars/parent/10-first.yml": "{p: parent-1, q: parent-1, r: parent-1}",
        "group_vars/parent/20-second": "q: parent-2",
        "group_vars/parent/deeper/30.yaml": "r: parent-3",
        "group_vars/parent/.hidden.yml": "r: hidden",
        "group_vars/parent/notes.txt": "this is not YAML: at: all",
        "group_vars/parent.yml": "never: read",
        "group_vars/gpu.json": '{"q": "gpu-json", "s": [1, 2]}',
        "group_vars/nobody.yml": "no: one",
        "host_vars/gpu1": "{t: file-host, v: file-host}",
        "host_vars/gpu2.yaml": "",
    },
}

SEVERAL: dict[str, tuple[list[str], dict[str, str]]] = {
    "two files and a list: the later wins": (
        ["one/hosts.yaml", "two/hosts.ini", "gpu9,gpu10"],
        {
            "one/hosts.yaml": "gpu: {vars: {x: yaml, y: yaml}, hosts: {gpu1: {z: yaml}, gpu2: }}",
            "one/group_vars/gpu.yml": "{f: one, g: one}",
            "two/hosts.ini": """
                [gpu]
                gpu1 z=ini
                gpu3
                [gpu:vars]
                x=ini
            """,
            "two/group_vars/gpu.yml": "f: two",
            "two/host_vars/gpu2.yml": "h: two",
        },
    ),
    "a folder of inventories": (
        ["inventories"],
        {
            "inventories/01-gpu.yaml": "gpu: {hosts: {gpu1: {a: 1}}}",
            "inventories/02-more": """
                [gpu]
                gpu2 a=2
            """,
            "inventories/deeper/03.yml": "storage: {hosts: {st1: }}",
            "inventories/readme.md": "not an inventory",
            "inventories/.hidden": "hidden1",
            "inventories/group_vars/gpu.yml": "b: 3",
            "inventories/group_vars/all/all.yml": "c: 4",
        },
    ),
}


def lay_out(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = text.strip("\n").split("\n")
        indent = min((len(row) - len(row.lstrip()) for row in rows if row.strip()), default=0)
        path.write_text("\n".join(row[indent:] for row in rows).rstrip() + "\n", encoding="utf-8")


def assert_alike(sources, home):
    theirs = ansible.listing(sources, home)
    ours = inventory.read(sources, environ={})
    assert {name: dict(ours.variables(name).values) for name in sorted(ours.names)} == ansible.hostvars(theirs)
    groups = {name: set(hosts) for name, hosts in ours.groups.items() if hosts}
    assert groups == {name: ansible.members(theirs, name) for name in groups}
    assert {name for name in theirs if name != "_meta" and ansible.members(theirs, name)} == groups.keys()


@pytest.mark.parametrize("case", CASES)
def test_one_source(case, tmp_path):
    lay_out(tmp_path, CASES[case])
    source = next(name for name in CASES[case] if name.startswith("hosts"))
    assert_alike([str(tmp_path / source)], tmp_path)


@pytest.mark.parametrize("case", SEVERAL)
def test_several_sources(case, tmp_path, monkeypatch):
    sources, files = SEVERAL[case]
    lay_out(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    assert_alike(sources, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_web_of_groups(seed, tmp_path):
    dice = random.Random(seed)  # noqa: S311 - the same web each time
    names = [f"g{number:02}" for number in range(25)]
    dice.shuffle(names)
    rows = []
    for index, name in enumerate(names):
        rows += [f"[{name}]", *(f"n{dice.randrange(40)} h={name}" for _ in range(dice.randrange(4)))]
        rows += [f"[{name}:vars]", *(f"v{number}={name}" for number in range(8) if dice.random() < 0.5)]
        rows += [f"ansible_group_priority={dice.randrange(1, 4)}"] if dice.random() < 0.3 else []
        below = names[index + 1 :]
        rows += [f"[{name}:children]", *dice.sample(below, min(len(below), dice.randrange(4)))]
    (tmp_path / "hosts").write_text("\n".join(rows) + "\n")
    assert_alike([str(tmp_path / "hosts")], tmp_path)
