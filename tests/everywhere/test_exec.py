"""`nodegate exec` over real sshd: one command on all nodes, equal outputs folded, nothing left behind."""

import signal
import subprocess
import sys

import pytest
from support import warm
from support.schemas import read_output
from support.sshd import Fleet

from lab.processes import odd_seconds, running, wait_until

EXEC = (sys.executable, "-m", "nodegate.cli", "exec")
DEAD = "".join(f"    dead{n}: {{ansible_host: 127.0.0.{n}, ansible_port: 1}}\n" for n in (1, 2))
# What a node prints goes by its address, the third word of $SSH_CONNECTION.
BY_NODE = 'case "$SSH_CONNECTION" in *.{last}\\ *) {then};; *) {other};; esac'


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), 4, name="gpu") as running_fleet:
        yield running_fleet


@pytest.fixture(scope="module")
def hosts(fleet):
    file = fleet.folder / "hosts.yaml"
    file.write_text(fleet.inventory() + DEAD)
    return str(file)


def ask(*arguments):
    return warm.run([*EXEC, *arguments], capture_output=True, text=True, timeout=120, check=False)


def by_node(last, then, other):
    """A line for sh that does the one thing on one node, and the other on all others."""
    return BY_NODE.format(last=last, then=then, other=other)


RULE = "-" * 15


@pytest.mark.parametrize(
    ("nodes", "line", "said", "code"),
    [
        ("gpu[1-4]", "echo one", [RULE, "gpu[1-4] (4): exit 0", RULE, "  one"], 0),
        (
            "gpu[1-4]",
            by_node(3, "echo odd >&2; exit 3", "echo one; echo more"),
            [RULE, "gpu[1-2,4] (3): exit 0", RULE, "  one", "  more", RULE, "gpu3 (1): exit 3", RULE, "! odd"],
            1,
        ),
        ("gpu1", "true", [RULE, "gpu1 (1): exit 0", RULE, "[no output]"], 0),
        (  # a node can neither move the cursor nor write a head of its own
            "gpu2",
            r"printf '\033[2J\r---------------\ngpu9 (9): exit 0\342\200\256\377'",
            [RULE, "gpu2 (1): exit 0", RULE, r"  \x1b[2J\x0d" + RULE, r"  gpu9 (9): exit 0\u202e\xff"],
            0,
        ),
    ],
)
def test_equal_answers_are_one_group_the_biggest_first(hosts, nodes, line, said, code):
    done = ask("--inventory", hosts, "--nodes", nodes, "--", line)
    assert (done.stdout.splitlines()[:-2], done.returncode) == (said, code), done.stderr


def test_several_words_are_no_line_for_a_shell(hosts):
    done = ask("--inventory", hosts, "--nodes", "gpu1", "--", "printf", "%s|", "a b", "$HOME", "--", "-x")
    assert done.stdout.splitlines()[3] == "  a b|$HOME|--|-x|"


def test_nodes_that_do_not_answer_are_groups_with_the_reason(hosts):
    done = ask("--inventory", hosts, "--limit", "3s", "--", by_node(2, "sleep 60", "uname"))
    heads = [line for line in done.stdout.splitlines() if "): " in line]
    assert heads[0] == "gpu[1,3-4] (3): exit 0"
    assert heads[1].startswith("dead[1-2] (2): refused: ")
    assert heads[2] == "gpu2 (1): timed out: not over after 3 s, it was ended"
    assert done.stdout.splitlines()[-1] == "6 nodes: 3 exit 0, 2 refused, 1 timed out"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nodes", "dead[1-2]", "--", "true"), "2 nodes: 2 refused"),
        (("--nodes", "gpu1"), "there is no command"),
        (("--nodes", "gpu1", "--limit", "60", "--", "true"), "--limit 60: a duration needs its unit"),
        (("--nodes", "gpu1", "--output-kib", "0", "--", "true"), "--output-kib 0"),
        (("--nodes", "gpu1", "--stacks", "--", "true"), "give no command"),
        (("--nodes", "gpu1", "--tools", "/tmp", "--", "true"), "--tools is for --stacks"),
        (("--nodes", "cpu1", "--", "true"), "cpu1"),
        (("--job", "1; rm -rf /", "--", "true"), "not the number of a job"),
    ],
)
def test_wrong_use_and_nobody_reached_are_2(hosts, arguments, said):
    done = ask("--inventory", hosts, *arguments)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_output_is_cut_and_says_so(hosts):
    done = ask("--inventory", hosts, "--nodes", "gpu1", "--output-kib", "2", "--json", "--", "seq 100000")
    (group,) = read_output(done.stdout)["groups"]
    assert (len(group["stdout"]), group["is_cut"], group["exit_code"]) == (2048, True, 0)
    shown = ask("--inventory", hosts, "--nodes", "gpu1", "--output-kib", "2", "--", "seq 100000").stdout
    assert "\n[cut: more than 2 KiB; only the first are kept]\n" in shown


def test_json_is_one_object(hosts):
    done = ask("--inventory", hosts, "--nodes", "gpu[1-2]", "--json", "--", "echo", "\u4e2d")
    found = read_output(done.stdout)
    assert (found["schema"], found["command"], found["exit_code"]) == ("nodegate.exec/1", ["echo", "\u4e2d"], 0)
    (group,) = found["groups"]
    assert (group["nodes"], group["how"], group["stdout"]) == (["gpu1", "gpu2"], "ended", "\u4e2d\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_on_a_node_when_we_are_ended(hosts, number):
    seconds = odd_seconds()
    command = [*EXEC, "--inventory", hosts, "--nodes", "gpu[1-4]", "--", "sh", "-c", f"sleep {seconds} & wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
        wait_until(lambda: len(running(seconds)) == 4, 60)
        asking.send_signal(number)
        wait_until(lambda: not running(seconds), 30)
        assert asking.wait(30) != 0


def test_a_held_node_is_asked_too_and_no_lock_is_left(fleet, hosts):
    locks = sorted(fleet.folder.glob("*.lock"))
    assert ask("--inventory", hosts, "--nodes", "gpu1", "--", "true").returncode == 0
    assert sorted(fleet.folder.glob("*.lock")) == locks


SQUEUE = """#!/bin/sh
test "$*" = "-h -j {job} -o %A|%T|%N" || {{ echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }}
printf '{rows}'
"""


@pytest.mark.parametrize(
    ("job", "rows", "arguments", "said", "code"),
    [
        ("12", r"12|RUNNING|gpu[2-3]\n", (), "gpu[2-3] (2): exit 0", 0),
        ("12_1", r"14|RUNNING|gpu2\n15|PENDING|\n", (), "gpu2 (1): exit 0", 0),
        ("12", r"12|RUNNING|gpu[2-3]\n", ("--nodes", "gpu3"), "gpu3 (1): exit 0", 0),
        ("12", r"12|RUNNING|gpu[4-5]\n", (), "gpu5 (1): not reached: the inventory does not have it", 1),
        ("12", r"12|PENDING|\n", (), "it runs on no node; its state is PENDING", 2),
        ("12", r"", (), "its state is not known to squeue", 2),
        ("12", r"12|RUNNING|gpu[2-\n", (), "gpu[2-", 2),
    ],
)
def test_the_nodes_of_a_job_are_asked_of_slurm(hosts, tmp_path, monkeypatch, *, job, rows, arguments, said, code):
    squeue = tmp_path / "squeue"
    squeue.write_text(SQUEUE.format(job=job, rows=rows))
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = ask("--inventory", hosts, "--job", job, *arguments, "--", "true")
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_without_an_inventory_nodes_are_reached_by_their_names(fleet, tmp_path):
    first = fleet.nodes[0].connection
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu9\n HostName {first.address}\n Port {first.port}\n User {fleet.user}\n"
        f" IdentityFile {fleet.user_key}\n UserKnownHostsFile {fleet.known_hosts}\n"
        " GlobalKnownHostsFile none\n IdentityAgent none\n"
    )
    done = ask("--openssh-config", str(config), "--nodes", "gpu9", "--", "echo", "here")
    assert done.stdout.splitlines()[1:4] == ["gpu9 (1): exit 0", RULE, "  here"], done.stderr
