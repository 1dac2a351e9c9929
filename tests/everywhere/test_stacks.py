"""`nodegate exec --stacks`: real py-spy over real processes of a hung job, on nodes with processes of their own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import sshd, warm
from support.schemas import read_output
from support.sshd import NODE_PYTHON, Fleet

from lab.processes import children_of, odd_seconds, wait_until
from nodegate.errors import CannotMeasure
from nodegate.everywhere.stacks import Rank, Stacks, parse
from nodegate.node_side.tools import rank_stacks

PY_SPY = Path(sys.executable).with_name("py-spy")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="nodes with processes of their own need root"
)
# A training that hangs: its ranks wait in a collective; the one of $ODD never comes to it. Each has a loader as a
# child, with the same variables, and a thread that watches.
TRAINING = """\
import os, subprocess, sys, threading, time

def watch():
    while True:
        time.sleep(0.05)

def load_batch(step):
    time.sleep(100000 + step)

def wait_for_work():
    time.sleep(100000)

def all_reduce(step):
    threading.Event().wait(100000 + step)

def train(step):
    load_batch(step) if os.environ["RANK"] == os.environ.get("ODD") else all_reduce(step)

if sys.argv[1:] == ["loader"]:
    wait_for_work()
threading.Thread(target=watch, name="watch", daemon=True).start()
loader = subprocess.Popen([sys.executable, __file__, "loader"])
train(int(os.environ["RANK"]))
"""
# One node: a namespace of processes with four ranks and an sshd in it. $N is the node.
NODE = """#!/bin/sh
N=$(cat {folder}/count); echo $((N + 1)) >{folder}/count
export N
exec unshare --pid --fork --mount-proc --kill-child sh -c '
for at in 0 1 2 3; do RANK=$((4 * N + at)); [ $RANK = {dead} ] || RANK=$RANK WORLD_SIZE=16 ODD={odd} \\
  {python} {folder}/train.py & done
exec {sshd} "$@"' sshd "$@"
"""


class Hung:
    """Four nodes with four ranks each."""

    def __init__(self, folder, *, odd, dead="none"):
        self.folder, self.fleets = folder, []
        (folder / "train.py").write_text(TRAINING)
        (folder / "count").write_text("0\n")
        program = folder / "node.sh"
        program.write_text(NODE.format(folder=folder, odd=odd, dead=dead, python=NODE_PYTHON, sshd=sshd.SSHD))
        program.chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sshd, "SSHD", str(program))
            for number in range(1, 5):
                self.fleets.append(Fleet(folder, 1, name=f"gpu{number}x").__enter__())
        written = [yaml.safe_load(fleet.inventory())["all"] for fleet in self.fleets]
        hosts = {
            f"gpu{number}": {**all_of["vars"], **all_of["hosts"][f"gpu{number}x1"]}
            for number, all_of in enumerate(written, 1)
        }
        (folder / "hosts.yaml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))

    def ask(self, *arguments):
        inventory = ["--inventory", str(self.folder / "hosts.yaml")]
        command = [sys.executable, "-m", "nodegate.cli", "exec", *inventory, "--stacks", *arguments]
        return warm.run(command, capture_output=True, text=True, timeout=180, check=False)

    def stop(self):
        for fleet in self.fleets:
            fleet.stop()


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tools")
    shutil.copy(PY_SPY, folder / "py-spy")
    return str(folder)


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    found = Hung(tmp_path_factory.mktemp("hung"), odd="9")
    yield found
    found.stop()


@needs_root
def test_the_odd_rank_of_a_hung_collective_is_named_with_its_node(hung, tools):
    done = hung.ask("--tools", tools)
    assert done.returncode == 1, done.stderr
    said = done.stdout.splitlines()
    assert said[1] == "15 ranks: 0-8,10-15 on gpu[1-4]"
    assert said[5:7] == ["  all_reduce (train.py)", "  train (train.py)"]
    assert "16 ranks: 2 stacks of their main threads" in said
    (odd,) = [line for line in said if line.startswith("odd: ")]
    assert odd.startswith("odd: gpu3 rank 9 (pid ")
    assert odd.endswith("): in load_batch (train.py)")


@needs_root
def test_the_same_as_json_and_nothing_is_left_on_the_nodes(hung, tools):
    found = read_output(hung.ask("--tools", tools, "--json").stdout)
    groups = found["stacks"]["groups"]
    assert groups[1]["ranks"][0]["frames"][0] == "load_batch (train.py)"
    assert [(len(group["ranks"]), group["is_odd"]) for group in groups] == [(15, False), (1, True)]
    assert [(rank["node"], rank["rank"]) for rank in groups[1]["ranks"]] == [("gpu3", "9")]
    assert not [each for folder in ("/dev/shm", "/tmp") for each in Path(folder).glob("nodegate-tools-*")]


@needs_root
def test_without_py_spy_one_line_says_what_to_bring(hung):
    done = hung.ask()
    assert done.returncode == 2
    (said,) = [line for line in done.stdout.splitlines() if "py-spy" in line]
    assert said.startswith("gpu[1-4] (4): not reached: no py-spy was found - pip install --target tools py-spy")


@needs_root
def test_a_rank_that_is_gone_is_named(tmp_path, tools):
    found = Hung(tmp_path, odd="none", dead="6")
    try:
        done = found.ask("--tools", tools)
    finally:
        found.stop()
    assert "no process: 6: it has ended, or its node was not asked" in done.stdout
    assert done.returncode == 1


def rank(number, *names, error="", size="4"):
    return Rank(f"gpu{number}", 100 + number, str(number), size, names, error)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([rank(n, "wait") for n in range(4)], ["4 ranks: 1 stack of their main threads"]),
        (
            [rank(0, "wait"), rank(1, "wait"), rank(2, "load"), rank(3, "load")],
            ["no stack is that of more than half of the ranks: none is called odd"],
        ),
        (
            [rank(0, "wait"), rank(1, "wait"), rank(2, "wait"), rank(3, error="py-spy: no such process 103")],
            ["4 ranks: 1 stack of their main threads", "not read: gpu3 rank 3 (pid 103): py-spy: no such process 103"],
        ),
        (
            [rank(0, "wait"), rank(0, "wait"), rank(1, "wait"), rank(2, "wait")],
            ["several processes have one number: 0: more than one job? name it with --job"],
        ),
        ([rank(0, "\x1b[2J", size="1")], ["1 rank: 1 stack of their main threads"]),
    ],
)
def test_what_is_said_of_ranks(ranks, said):
    shown = "\n".join(Stacks([(ranks, 0)]).lines()).splitlines()
    assert shown[len(shown) - len(said) :] == said
    assert "\x1b" not in "".join(shown)


@pytest.mark.parametrize("printed", [b"", b"{}", b"[]", b'{"ranks": 3, "hidden": 0}', b'{"ranks": [{}], "hidden": 0}'])
def test_what_a_node_sends_instead_is_refused(printed):
    with pytest.raises(CannotMeasure, match="not in nodegate's form"):
        parse("gpu1", printed)


CHILD = "import subprocess, sys, time; {}; time.sleep(600)"
PARENT = CHILD.format("subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])")


@pytest.mark.parametrize(
    ("variables", "arguments", "found"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0"}, (CHILD.format("0"),), [("3", "8")]),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (CHILD.format("0"),), [("2", "4")]),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (CHILD.format("0"),), [("5", "6")]),
        ({"RANK": "1"}, (PARENT,), [("1", "")]),  # its loader has the same number
        ({"RANK": "$(x)"}, (CHILD.format("0"),), [("", "")]),  # of the job, without a number
        ({"RANK": "1"}, (CHILD.format("0"), "nodegate-guard"), []),  # what we started there ourselves
    ],
)
def test_ranks_are_found_by_what_their_launcher_said(variables, arguments, found):
    job = odd_seconds()
    own = {**os.environ, **variables, "SLURM_JOB_ID": job}
    with subprocess.Popen([sys.executable, "-c", *arguments], env=own, start_new_session=True) as started:
        try:
            wait_until(lambda: len(children_of(started.pid)) == (arguments == (PARENT,)))
            rows, _ = rank_stacks.ranks([job])
            assert [(row["rank"], row["size"]) for row in rows] == found
            assert [row["pid"] for row in rows] in ([started.pid], [])
        finally:
            os.killpg(started.pid, signal.SIGKILL)
