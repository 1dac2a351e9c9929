"""nodegate's one file for compute nodes: no package beside it, unpacked once, and no code of anybody else is run."""

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.pythons import other_pythons

from nodegate.demands.demands import Demands, Embedded

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "deploy" / "one_file"
NO_PACKAGES = ("-I", "-S")  # neither site-packages nor the user's own


@pytest.fixture(scope="module")
def starter():
    spec = importlib.util.spec_from_file_location("one_file_starter", SOURCES / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def file(tmp_path_factory, starter):
    target = tmp_path_factory.mktemp("dist") / "bootcheck.pyz"
    subprocess.run([sys.executable, str(SOURCES / "build.py"), str(target)], check=True, timeout=300)
    yield target
    shutil.rmtree(starter.unpacked(str(target))[0])


@pytest.fixture
def archive(tmp_path, starter, monkeypatch):
    """A small archive, and a place of the test's own where it is unpacked."""
    monkeypatch.setattr(starter, "RUN", str(tmp_path / "kept"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = tmp_path / "small.pyz"
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("nodegate/__init__.py", "")
    return target


def run(file, *arguments, python=sys.executable):
    command = [python, *NO_PACKAGES, str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_answers_as_the_whole_package_does(file):
    english = ("fit: ", "unfit: ", "could not tell: GPU", "could not tell: could not read")
    for lang, begins in (("en", english), ("zh", ("可用", "不可用", "无法判断"))):
        alone = run(file, "bootcheck", "--lang", lang)
        command = [sys.executable, "-m", "nodegate.cli", "bootcheck", "--lang", lang]
        whole = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (alone.returncode, alone.stdout, alone.stderr) == (whole.returncode, whole.stdout, "")
        assert alone.stdout.startswith(begins)


@pytest.mark.parametrize("python", other_pythons())
def test_each_python_of_this_machine_runs_it_or_is_told_why_not(file, python):
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 10))"], capture_output=True, text=True, check=True
    )
    said = run(file, "bootcheck", python=python)
    if version.stdout.strip() == "True":
        assert said.returncode in (0, 1)
    else:
        assert said.returncode == 2
        assert said.stdout.startswith("could not tell: nodegate needs Python 3.10 or newer")


def test_a_hook_runs_from_it(file, tmp_path):
    said = run(file, "hook", "slurm-prolog", "--kept", str(tmp_path / "verdict.json"))
    assert said.stdout.count("\n") == 1
    assert said.stdout.startswith(("fit", "unfit", "nodegate: ", "could not tell"))
    assert "failed (" not in said.stdout


def test_it_reads_demands(file, tmp_path):
    limits = {"platform": "*", "limits": {"host.shm_min_gib": {"value": 1, "unit": "GiB", "source": "the site"}}}
    demands = Demands(socket.gethostname(), {"nodegate_mounts": ["/no/such"]}, baselines=(Embedded("s.yaml", limits),))
    path = tmp_path / "demands.yaml"
    path.write_text(demands.text)
    path.chmod(0o644)
    said = json.loads(run(file, "bootcheck", "--json", "--demands", str(path)).stdout)
    verdicts = {record["check"]: record["verdict"] for record in said["results"]}
    assert (said["demands"], verdicts["host.mounts"]) == (demands.sha256, "fail")
    path.write_text(demands.text.replace("/no/such", "/tmp"))
    refused = run(file, "bootcheck", "--demands", str(path))
    assert refused.returncode == 2
    assert refused.stdout.startswith(f"could not tell: {path}"[:90])


@pytest.mark.parametrize("arguments", [["triage", "log"], ["test"], ["bootcheck", "--active"]])
def test_what_it_does_not_have_is_refused(file, arguments):
    said = run(file, *arguments)
    assert said.returncode == 2
    assert "install nodegate for" in said.stdout
    assert said.stderr == ""


def test_a_file_that_was_cut_off_is_no_verdict(file, starter, tmp_path):
    damaged = tmp_path / "damaged.pyz"
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(damaged, "w") as less:
        less.writestr("__main__.py", whole.read("__main__.py"))
    said = run(damaged, "bootcheck")
    shutil.rmtree(starter.unpacked(str(damaged))[0])
    assert said.returncode == 2
    assert said.stdout.startswith("could not tell: nodegate's file is damaged")


def test_it_is_unpacked_once(archive, starter):
    first, once = starter.unpacked(str(archive))
    assert not once
    assert (Path(first) / "nodegate" / "__init__.py").exists()
    assert starter.unpacked(str(archive)) == (first, False)
    assert [each.name for each in Path(first).parent.iterdir()] == [Path(first).name]


def test_another_file_gets_another_folder(archive, starter):
    first = starter.unpacked(str(archive))[0]
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr("nodegate/more.py", "")
    assert starter.unpacked(str(archive))[0] != first


@pytest.mark.parametrize("which", ["folder", "home"])
def test_a_folder_that_others_can_write_is_not_used(archive, starter, which):
    kept = Path(starter.unpacked(str(archive))[0])
    (kept if which == "folder" else kept.parent).chmod(0o777)
    folder, once = starter.unpacked(str(archive))
    assert once
    assert Path(folder) != kept
    assert Path(folder).stat().st_mode & 0o077 == 0
    shutil.rmtree(folder)


def test_a_link_in_its_place_is_not_followed(archive, starter, tmp_path):
    kept = Path(starter.unpacked(str(archive))[0])
    shutil.rmtree(kept)
    kept.symlink_to(tmp_path)
    folder, once = starter.unpacked(str(archive))
    assert once
    assert Path(folder) != kept
    shutil.rmtree(folder)
