"""The files of deploy/ do what their first lines say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodegate.site.site_file import read

DEPLOY = Path(__file__).parents[2] / "deploy"


def prolog(tmp_path, script, hook="slurm-prolog.sh", **environment):
    program = tmp_path / "nodegate"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return subprocess.run(
        [DEPLOY / hook],
        env={"NODEGATE": str(program), "NODEGATE_CONF": str(tmp_path / "hooks.conf"), **environment},  # and no PATH
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "normal", "strict"),
    [
        ("echo 'fit: 40 checks passed'; exit 0", 0, 0),
        ("echo 'unfit: GPU 3: lost'; exit 1", 1, 1),
        ("echo 'could not tell: needs root'; exit 2", 0, 1),
        ("echo 'busy: another run holds this node'; exit 75", 0, 1),
        ("echo 'Traceback: no module named nodegate' >&2; exit 1", 0, 1),
        ("exit 0", 0, 1),
        ("sleep 60", 0, 1),
        ("kill -9 $$", 0, 1),
        (None, 0, 1),
    ],
    ids=["fit", "unfit", "could-not-tell", "busy", "broken-with-1", "silent-0", "hangs", "killed", "not-installed"],
)
def test_only_a_verdict_on_the_hardware_holds_the_job(tmp_path, script, normal, strict):
    limit_s = "1" if script == "sleep 60" else "30"
    assert prolog(tmp_path, script, NODEGATE_LIMIT_S=limit_s).returncode == normal
    assert prolog(tmp_path, script, NODEGATE_LIMIT_S=limit_s, NODEGATE_STRICT="1").returncode == strict


PORT_TAKEN = "echo 'unusable: port 29500: another program listens on it - ss'; exit 1"


@pytest.mark.parametrize(
    ("script", "environment", "code"),
    [
        (PORT_TAKEN, {"MASTER_PORT": "29500"}, 1),
        (PORT_TAKEN, {"MASTER_PORT": "29500", "SLURM_LOCALID": "0"}, 1),
        (PORT_TAKEN, {"MASTER_PORT": "29500", "SLURM_LOCALID": "1"}, 0),
        (PORT_TAKEN, {"MASTER_PORT": "2950"}, 0),
        (PORT_TAKEN, {}, 0),
        ("echo 'unfit: GPU 3: lost'; exit 1", {"MASTER_PORT": "29500"}, 0),
        ("exit 1", {"MASTER_PORT": "29500"}, 0),
        (None, {"MASTER_PORT": "29500"}, 0),
    ],
)
def test_a_task_prolog_ends_a_step_for_its_port_alone(tmp_path, script, environment, code):
    done = prolog(tmp_path, script, "slurm-task-prolog.sh", PATH=os.defpath, **environment)
    said = "print nodegate: unusable: port 29500: another program listens on it - ss\n"
    assert (done.returncode, done.stdout) == (code, said if code else "")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exec sleep 60", "{program} within 1 s"),
        ("trap '' TERM; sleep 20; sleep 20", "{program} within 1 s"),
        (None, "{program} (exit code 127): timeout: failed to run command '{program}': No such file or directory"),
        ("exit 1", "{program} (exit code 1)"),
    ],
    ids=["hangs", "deaf", "not-installed", "broken"],
)
def test_without_an_answer_it_says_whether_the_time_was_over(tmp_path, script, words):
    said = prolog(tmp_path, script, NODEGATE_LIMIT_S="1" if script and "sleep" in script else "30").stdout
    assert said == f"nodegate: could not tell: no answer from {words.format(program=tmp_path / 'nodegate')}\n"


@pytest.mark.parametrize("hook", ["slurm-prolog.sh", "slurm-epilog.sh", "slurm-healthcheck.sh"])
def test_each_link_calls_its_hook(tmp_path, hook):
    assert (DEPLOY / hook).readlink() == Path("slurm-hook.sh")
    said = prolog(tmp_path, 'echo "fit: $*"', hook, NODEGATE_OPTIONS="--fresh 9", NODEGATE_STRICT="1").stdout
    assert said == f"nodegate: fit: hook {hook.removesuffix('.sh')} --strict --fresh 9\n"


def test_the_hooks_called_by_another_name_look_at_nothing(tmp_path):
    done = prolog(tmp_path, "echo 'unfit: GPU 3: lost'; exit 1", "slurm-hook.sh")
    assert done.returncode == 0
    assert "is not the name of a hook" in done.stdout


@pytest.mark.parametrize(
    ("nodes", "is_asked"),
    [("", True), ("*", True), ("gpu*", True), ("cpu*|gpu-?", True), ("cpu*|dgx*", False), ("gpu", False)],
)
def test_only_the_nodes_that_are_named_are_looked_at(tmp_path, nodes, is_asked):
    done = prolog(tmp_path, "echo 'unfit: GPU 3: lost'; exit 1", SLURMD_NODENAME="gpu-2", NODEGATE_NODES=nodes)
    assert done.returncode == int(is_asked)
    assert bool(done.stdout) is is_asked


def test_a_drain_that_is_done_is_no_failure_of_the_hook(tmp_path):
    done = prolog(tmp_path, "echo 'unfit: GPU 3: lost; drained'", "slurm-epilog.sh", NODEGATE_STRICT="1")
    assert (done.returncode, done.stdout) == (0, "nodegate: unfit: GPU 3: lost; drained\n")


def test_systemd_accepts_the_units(tmp_path):
    assert shutil.which("systemd-analyze"), "install the package systemd"
    for unit in DEPLOY.glob("nodegate-nightly.*"):
        text = unit.read_text().replace("/opt/nodegate/bin/nodegate", "/bin/true").replace("User=nodegate", "User=root")
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "nodegate-nightly.timer")],
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "nodegate-nightly" in line]
    assert not complaints, done.stderr


def test_the_site_file_is_one():
    assert read(DEPLOY / "site.yaml").of("record", "keep", 0) == 30 * 86400.0


def test_the_cron_line_is_one_line_that_names_a_user():
    lines = [line for line in (DEPLOY / "nodegate-nightly.cron").read_text().splitlines() if "nodegate nightly" in line]
    assert len(lines) == 1
    assert lines[0].split()[5] == "nodegate"
