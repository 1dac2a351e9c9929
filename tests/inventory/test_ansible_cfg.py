"""ansible.cfg: the settings of connection count as in Ansible, the others are named."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support import ansible

from nodegate.errors import UsageError
from nodegate.inventory import inventory
from nodegate.inventory.ansible_cfg import SETTINGS, defaults

SITE = """
[defaults]
inventory = hosts.yml
remote_user = ops
private_key_file = ~/.ssh/site.pem
host_key_checking = False

[ssh_connection]
ssh_args = -o ProxyJump=ops@192.0.2.9 -o ControlMaster=auto -o ControlPersist=60s
"""
QUOTED = """
; a comment
[defaults]
remote_user: "ops"   ; as it was
remote_port = 2222
timeout = 20
Host_Key_Checking = yes
[ssh_connection]
ssh_common_args = '-o ConnectTimeout=5'
ssh_extra_args = -o LogLevel=ERROR
    -o Compression=%%h
timeout = 33
retries = 4
# remote_user = nobody
"""
PLUGIN = {  # the names that Ansible's connection plugin has for the settings
    "remote_user": "ANSIBLE_REMOTE_USER",
    "port": "ANSIBLE_REMOTE_PORT",
    "private_key_file": "ANSIBLE_PRIVATE_KEY_FILE",
    "host_key_checking": "ANSIBLE_HOST_KEY_CHECKING",
    "timeout": "ANSIBLE_TIMEOUT",
    "reconnection_retries": "ANSIBLE_SSH_RETRIES",
    "ssh_args": "ANSIBLE_SSH_ARGS",
    "ssh_common_args": "ANSIBLE_SSH_COMMON_ARGS",
    "ssh_extra_args": "ANSIBLE_SSH_EXTRA_ARGS",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir(mode=0o755)
    (folder / "hosts.yml").write_text("gpu: {hosts: {gpu1: , gpu2: {ansible_user: eve, ansible_port: 22}}}\n")
    monkeypatch.chdir(folder)
    return folder


def connections(**environ):
    return [node.connection for node in inventory.read(["hosts.yml"], environ=environ).nodes]


def of_ansible(folder):
    """What Ansible takes from the ansible.cfg of the current folder, by our names; without its defaults."""
    program = ansible.program().with_name("ansible-config")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    argv = [str(program), "dump", "-t", "connection", "ssh", "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environ, cwd=folder)
    rows = json.loads(done.stdout)[0]["ssh"]
    return {
        PLUGIN[row["name"]]: str(row["value"]) for row in rows if row["name"] in PLUGIN and row["origin"] != "default"
    }


@pytest.mark.parametrize("text", [SITE, QUOTED, "", "[defaults]\nforks=50\n"])
def test_what_ansible_takes_from_it_is_what_we_take(text, here):
    (here / "ansible.cfg").write_text(text)
    ours = {name: setting.value for name, setting in defaults({}).settings.items()}
    theirs = {name: " ".join(value.split("\n")) for name, value in of_ansible(here).items()}
    as_text = {name: {"yes": "True", "no": "False"}.get(value, value) for name, value in ours.items()}
    assert as_text == theirs


def test_each_setting_of_connection_is_known():
    assert set(SETTINGS.values()) - set(PLUGIN.values()) == {
        "ANSIBLE_BECOME",
        "ANSIBLE_BECOME_METHOD",
        "ANSIBLE_PYTHON_INTERPRETER",
    }


def test_a_host_of_which_the_inventory_says_nothing_is_reached_by_it(here):
    (here / "ansible.cfg").write_text(SITE + "[privilege_escalation]\nbecome = true\n")
    first, second = connections()
    assert (first.user, first.become, first.host_keys) == ("ops", True, "off")
    assert first.key_files == (str(Path("~/.ssh/site.pem").expanduser()),)
    assert first.ssh_args[:2] == ("-o", "ProxyJump=ops@192.0.2.9")
    assert (second.user, second.port, second.key_files) == ("eve", 22, first.key_files)
    (here / "ansible.cfg").write_text(QUOTED)
    first, second = connections()
    assert (first.user, first.port, first.connect_timeout_s, first.retries) == ("ops", 2222, 33.0, 4)
    assert second.port == 22
    assert first.ssh_args == ("-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR", "-o", "Compression=%%h")


def test_the_environment_wins_over_it(here):
    (here / "ansible.cfg").write_text(SITE)
    first, _ = connections(ANSIBLE_REMOTE_USER="ada", ANSIBLE_SSH_ARGS="-v", ANSIBLE_PRIVATE_KEY_FILE="/k")
    assert (first.user, first.ssh_args, first.key_files, first.host_keys) == ("ada", ("-v",), ("/k",), "off")


@pytest.mark.parametrize("place", ["site/ansible.cfg", "home/.ansible.cfg", "other/ansible.cfg"])
def test_where_it_may_be(place, here, tmp_path):
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("[defaults]\nremote_user = ops\n")
    environ = {"HOME": str(tmp_path / "home"), "ANSIBLE_CONFIG": str(tmp_path / "other")}
    assert connections(**environ)[0].user == "ops"
    (here / "ansible.cfg").write_text("[defaults]\nremote_user = here\n")
    assert connections(**environ)[0].user == ("ops" if place.startswith("other") else "here")


def test_it_is_not_read_where_everyone_can_write(here):
    (here / "ansible.cfg").write_text(SITE)
    here.chmod(0o777)
    found = inventory.read(["hosts.yml"], environ={})
    assert found.nodes[0].connection.user is None
    assert found.notes == ("ansible.cfg is not read: everyone can write to this folder",)
    assert connections(ANSIBLE_CONFIG="ansible.cfg")[0].user == "ops"


def test_what_is_used_and_what_is_not_is_told_once(here):
    (here / "ansible.cfg").write_text(SITE + "[privilege_escalation]\nbecome_user = root\n[galaxy]\nserver_list = a\n")
    found = inventory.read(["hosts.yml"], environ={})
    assert len(found.nodes) == 2
    (note,) = found.notes
    assert note == (
        "ansible.cfg: used are defaults.remote_user, defaults.private_key_file, defaults.host_key_checking, "
        "ssh_connection.ssh_args; not used are defaults.inventory"
    )


NOT_SUDO = "[privilege_escalation]\nbecome = 1\nbecome_method = su"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults]\nremote_port = ssh\n", "ansible.cfg:2: defaults.remote_port: 'ssh' is not a whole number"),
        ("[defaults]\nremote_user = -x\n", "ansible.cfg:2: defaults.remote_user: '-x' looks like an option"),
        ("[ssh_connection]\nssh_args = 'open\n", "ansible.cfg:2: ssh_connection.ssh_args: no closing quotation"),
        ("[defaults]\nhost_key_checking: perhaps", "ansible.cfg:2: defaults.host_key_checking: 'perhaps' is not true"),
        (NOT_SUDO, "ansible.cfg:3: privilege_escalation.become_method: 'su': only sudo is supported"),
        ("remote_user = ops\n", "ansible.cfg: cannot be read as a configuration file: "),
        ("[defaults\n", "ansible.cfg: cannot be read as a configuration file: "),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_its_line(text, said, here):
    (here / "ansible.cfg").write_text(text)
    with pytest.raises(UsageError) as refused:
        connections()
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
