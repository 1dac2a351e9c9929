"""The Slurm hooks: their settings and their time limit.

Each test runs the hook as Slurm does, with a nodegate that calls every node unfit.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "deploy" / "slurm-prolog.sh"
HELPER = Path(__file__).parents[1] / "support" / "hung_mount.py"
UNFIT_LINE = "unfit: nvidia module: not loaded"
UNFIT = "echo 'unfit: nvidia module: not loaded'; exit 1"
HANGS = pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and FUSE")


class Site:
    """A folder with nodegate and hooks.conf."""

    def __init__(self, folder):
        self.folder = folder
        self.conf = folder / "hooks.conf"
        self.nodegate = folder / "nodegate"
        self.program(UNFIT)

    def program(self, script):
        self.nodegate.write_text(f"#!/bin/sh\n{script}\n")
        self.nodegate.chmod(0o755)

    def hook(self, name, settings, *before, **environment):
        """The exit code of the prolog on the node of this name, and what it printed."""
        self.conf.write_bytes(settings.encode())
        paths = {"NODEGATE": str(self.nodegate), "NODEGATE_CONF": str(self.conf), "SLURMD_NODENAME": name}
        done = subprocess.run(
            [*before, HOOK], env={**paths, **environment}, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout

    def told(self, line, what):
        """No job is held, and one line says where the settings are wrong."""
        ending = "no node is checked until this is corrected"
        return 0, f"nodegate: could not tell: {self.conf} line {line}: {what}; {ending}\n"


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_the_callers_pythonpath_is_not_looked_at(site):
    foreign, ran = site.folder / "modules", site.folder / "ran"
    foreign.mkdir()
    (foreign / "json.py").write_text(f"open({str(ran)!r}, 'w')")
    site.program(f'exec {sys.executable} -c "import json; print({UNFIT_LINE!r}); raise SystemExit(1)"')
    assert site.hook("gpu01", "", PYTHONPATH=str(foreign), PYTHONHOME=str(foreign)) == (1, f"nodegate: {UNFIT_LINE}\n")
    assert not ran.exists()


def test_a_mistyped_setting_holds_no_job(site):
    assert site.hook("cpu01", "NODEGATE_NODE=gpu*\n") == site.told(1, "there is no setting of the name NODEGATE_NODE")
    strict = site.hook("cpu01", "NODEGATE_STRICT=1\nNODEGATE_NODE=gpu*\n")
    assert strict == site.told(2, "there is no setting of the name NODEGATE_NODE")


def test_blanks_and_export_do_no_harm(site):
    for line in ("NODEGATE_NODES =gpu*", "  NODEGATE_NODES = gpu* ", "export NODEGATE_NODES=gpu*"):
        assert site.hook("cpu01", line) == (0, "")
        assert site.hook("gpu01", line)[0] == 1


def test_what_is_no_setting_is_told(site):
    cases = {
        "NODEGATE_NODES: gpu*": "is not KEY=VALUE",
        "NODEGATE_NODES=": "NODEGATE_NODES has no value",
        "NODEGATE_STRICT=yes": "NODEGATE_STRICT is neither 0 nor 1",
        "NODEGATE_LIMIT_S=30s": "NODEGATE_LIMIT_S is not a number of seconds",
        "NODEGATE_LIMIT_S=0": "NODEGATE_LIMIT_S is not a number of seconds",
        "mode = observ": "mode is neither enforce nor observe",
        "mode": "is not KEY=VALUE",
        "gate = yes": "gate is neither on nor off",
        **dict.fromkeys(("breaker = 0", "breaker = 101", "breaker = 5 %"), "breaker is not a whole percentage"),
    }
    for line, what in cases.items():
        code, said = site.hook("cpu01", f"# settings\n\n{line}\n")
        assert code == 0
        assert said.startswith(f"nodegate: could not tell: {site.conf} line 3")
        assert what in said
    site.conf.unlink()
    site.conf.symlink_to("no-such-file")
    environment = {"NODEGATE": str(site.nodegate), "NODEGATE_CONF": str(site.conf)}
    done = subprocess.run([HOOK], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert f"{site.conf} cannot be read" in done.stdout


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ("", ""),
        ("mode = observe\n", " --mode observe"),
        ("mode=enforce\n", " --mode enforce"),
        ('export NODEGATE_MODE="observe"\r\n', " --mode observe"),
        ("breaker = 20\ngate = on\n", " --breaker 20 --gate"),
        ("gate = off\nNODEGATE_OPTIONS=--fresh 9\n", " --fresh 9"),
        ((HOOK.parent / "hooks.conf").read_text(), " --mode observe"),
    ],
)
def test_what_a_site_lets_it_do_reaches_nodegate(site, settings, options):
    site.program('echo "fit: $*"')
    assert site.hook("gpu01", settings) == (0, f"nodegate: fit: hook slurm-prolog{options}\n")
    assert site.hook("gpu01", "mode = observe\nNODEGATE_MODE = enforce\n")[0] == 0


@pytest.mark.parametrize("script", [UNFIT, "exit 1", "echo 'could not tell: x'; exit 2", "exec /no/such/program"])
def test_observing_the_script_never_fails(site, script):
    site.program(script)
    for strict in ("0", "1"):
        assert site.hook("gpu01", f"mode = observe\nNODEGATE_STRICT={strict}\n")[0] == 0


def test_a_list_as_people_write_it_is_understood(site):
    for value in ('"gpu*"', "'gpu*'", "gpu*,dgx*", "gpu*, dgx*", "dgx* gpu*", "dgx*|gpu*\r", "gpu?[0-9],dgx*"):
        assert site.hook("gpu01", f"NODEGATE_NODES={value}\n")[0] == 1, value
        assert site.hook("cpu01", f"NODEGATE_NODES={value}\n") == (0, ""), value
    assert site.hook("gpu01", "NODEGATE_STRICT=1\r\nNODEGATE_NODES=gpu*\r\n")[0] == 1


def test_a_hostlist_is_understood(site):
    cases = {
        "gpu[01-16,20]": (["gpu01", "gpu09", "gpu16", "gpu20"], ["gpu1", "gpu17", "gpu001", "gpu20a", "cpu01"]),
        "gpu[1-16],dgx[1-3]": (["gpu1", "gpu16", "dgx2"], ["gpu01", "gpu17", "dgx4"]),
        "r[1-20]-n[08-12]": (["r7-n08", "r20-n12"], ["r0-n08", "r7-n8", "r21-n09", "r7-n13"]),
        "gpu[12]": (["gpu1", "gpu2"], ["gpu12"]),
        "*-gpu[001-128]": (["a-gpu001", "a-b-gpu128"], ["gpu001", "a-gpu129"]),
    }
    for value, (named, others) in cases.items():
        assert [site.hook(name, f"NODEGATE_NODES={value}")[0] for name in named] == [1] * len(named), value
        assert [site.hook(name, f"NODEGATE_NODES={value}") for name in others] == [(0, "")] * len(others), value


def test_a_pattern_that_can_match_nothing_is_told(site):
    for value in ("gpu[01-16", "gpu[16-01]", "gpu[1-9999999]", "^gpu", "gpu.*", "gpu{1,2}", "gpu* # all", "!cpu*", ","):
        code, said = site.hook("gpu01", f"NODEGATE_NODES={value}\n")
        assert code == 0
        assert said.startswith(f"nodegate: could not tell: {site.conf} line 1: "), value
        assert said.count("\n") == 1


@pytest.mark.parametrize("key", ["NODEGATE_NODES=cpu*", "NODEGATE_STRICT=1", "export NODEGATE_LIMIT_S=9"])
def test_a_setting_is_given_once(site, key):
    name = key.removeprefix("export ").partition("=")[0]
    assert site.hook("gpu01", f"{key}\n# again\n{key}\n") == site.told(3, f"{name} is set for the second time")


def test_a_name_with_a_domain_is_named_with_it_or_without(site):
    for value in ("gpu[01-04]", "gpu01", "gpu*.cluster.*", "gpu01.cluster.local"):
        assert site.hook("gpu01.cluster.local", f"NODEGATE_NODES={value}\n")[0] == 1, value
        assert site.hook("cpu01.cluster.local", f"NODEGATE_NODES={value}\n") == (0, ""), value


def test_what_is_large_costs_no_job_its_time(site):
    comment, hosts = "# a comment of some length\n", [f"a{number}[01-16]" for number in range(1000)]
    begun_s = time.monotonic()
    assert site.hook("gpu01", comment * 2400)[0] == 1
    assert site.hook("gpu01", f"NODEGATE_NODES={','.join(hosts)},gpu01\n")[0] == 1
    larger, many = site.hook("gpu01", comment * 10_000), site.hook("gpu01", "NODEGATE_NODES=a[1-99999],b[1-99999]\n")
    assert larger[1].startswith(f"nodegate: could not tell: {site.conf} is larger than 65536 bytes; ")
    assert many == site.told(1, "[1-99999]: more than 100000 names")
    site.program(f"head -c 10000000 /dev/zero | tr '\\0' x; echo; {UNFIT}")
    assert site.hook("gpu01", "") == (1, f"nodegate: {UNFIT_LINE}\n")
    assert time.monotonic() - begun_s < 20  # it took minutes


def test_a_child_that_keeps_the_output_open_holds_nothing(site):
    site.program(f"sleep 20 & {UNFIT}")
    begun_s = time.monotonic()
    assert site.hook("gpu01", "NODEGATE_LIMIT_S=15") == (1, "nodegate: unfit: nvidia module: not loaded\n")
    assert time.monotonic() - begun_s < 10


@HANGS
def test_a_file_server_that_is_down_holds_no_job(site):
    point = site.folder / "dead"
    point.mkdir()
    mounted = (sys.executable, HELPER, point)
    begun_s = time.monotonic()
    no_answer = f"no answer from {point}/nodegate within 1 s"
    settings = f"NODEGATE_LIMIT_S=1\nNODEGATE={point}/nodegate\n"
    assert site.hook("gpu01", settings, *mounted) == (0, f"nodegate: could not tell: {no_answer}\n")
    site.program(f"exec cat {point}/verdict.json")
    assert site.hook("gpu01", "NODEGATE_LIMIT_S=1", *mounted)[0] == 0
    code, said = site.hook("gpu01", "", *mounted, NODEGATE_CONF=f"{point}/hooks.conf")
    assert (code, said.startswith("nodegate: could not tell: no answer from the file system of")) == (0, True)
    assert time.monotonic() - begun_s < 30
