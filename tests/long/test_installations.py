"""The main job works in every way nodegate is installed, with its runtime dependencies alone.

One environment for all: the ways are installed one after the other, each over the one before.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.recorded import write_fleet

from nodegate.records.results import read

ROOT = Path(__file__).parents[2]
CHOICE = ["--nodes", "hgx0[6-7]", "-k", "link_width"]  # one of the two has a bad NIC slot
FILES = {
    *("run.json", "results.jsonl.gz", "report.json", "report.html"),
    *("junit.xml", "nodes.csv", "findings.csv", "metrics.prom"),
}


@dataclass(frozen=True)
class Installation:
    """A way nodegate is installed, and the folder its user stands in."""

    way: str
    bin: Path
    where: Path
    inventory: str

    def run(self, *command, where=None, **environment):
        path = environment.pop("PATH", f"{self.bin}:/usr/bin:/bin")
        return subprocess.run(
            command,
            cwd=where or self.where,
            env={"PATH": path, "HOME": os.environ["HOME"], "PY_COLORS": "0", "COLUMNS": "200", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@dataclass(frozen=True)
class Judged:
    """What a run came to."""

    exit_code: int
    items: list[str]
    verdicts: dict[tuple[str, str], str]
    files: set[str]


def pip(python, *arguments):
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh") / "nodegate"
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(clone))
    return next(folder.glob("nodegate-*.whl"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh environment with the runtime dependencies and nothing else; the folder of its programs."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    with zipfile.ZipFile(wheel) as held:
        about = next(name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
        needs = message_from_bytes(held.read(about)).get_all("Requires-Dist", [])
    pip(folder / "bin" / "python", "install", *needs)
    return folder / "bin"


@pytest.fixture(scope="module", params=["checkout", "editable", "wheel"])
def installed(request, clone, wheel, environment, tmp_path_factory):
    python = environment / "python"
    if request.param == "checkout":
        yield Installation("checkout", environment, clone, "inventory/demo.yaml")
        return
    pip(python, "install", "--no-deps", *(["--editable", str(clone)] if request.param == "editable" else [str(wheel)]))
    if request.param == "editable":
        yield Installation("editable", environment, clone, "inventory/demo.yaml")
    else:
        where = tmp_path_factory.mktemp("elsewhere")
        code = "from nodegate.files import paths; print(paths.suite_folder('inventory'))"
        folder = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        yield Installation("wheel", environment, where, f"{folder.stdout.strip()}/demo.yaml")
    pip(python, "uninstall", "--yes", "nodegate")


def judged(installed, run_dir, *command, **environment):
    done = installed.run(
        *command, "--inventory", installed.inventory, *CHOICE, "-v", "--run-dir", str(run_dir), **environment
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "arning" not in done.stdout + done.stderr
    items = sorted(set(re.findall(r"test_\w+\.py::test_\w+\[\w+\]", done.stdout)))
    records = read(run_dir) if run_dir.exists() else []
    verdicts = {(record.check, record.node): record.verdict.value for record in records}
    return Judged(done.returncode, items, verdicts, {each.name for each in run_dir.glob("*")} & FILES)


EXPECTED = Judged(
    1,
    ["test_pcie.py::test_link_width[hgx06]", "test_pcie.py::test_link_width[hgx07]"],
    {("pcie.link_width", "hgx06"): "pass", ("pcie.link_width", "hgx07"): "fail"},
    FILES,
)


@pytest.mark.parametrize("command", [["pytest"], ["python", "-m", "pytest"], ["pytest", "-n", "2"]], ids=" ".join)
def test_pytest_judges_the_fleet(installed, tmp_path, command):
    assert judged(installed, tmp_path / "run", *command) == EXPECTED


@dataclass(frozen=True)
class Nodegate:
    """The program `nodegate` where no `pytest` is on PATH, as pipx leaves it."""

    installed: Installation
    command: tuple[str, ...]
    environment: dict[str, str]

    def run(self, *arguments, where=None):
        return self.installed.run(*self.command, *arguments, where=where, **self.environment)


@pytest.fixture
def nodegate(installed, tmp_path):
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    assert shutil.which("pytest", path=path) is None
    if installed.way == "checkout":
        command = (str(installed.bin / "python"), "-m", "nodegate.cli")
        return Nodegate(installed, command, {"PATH": path, "PYTHONPATH": f"{installed.where}/src"})
    (tmp_path / "bin" / "nodegate").symlink_to(installed.bin / "nodegate")
    return Nodegate(installed, (f"{tmp_path}/bin/nodegate",), {"PATH": path})


def test_nodegate_test_is_pytest(installed, nodegate, tmp_path):
    assert judged(installed, tmp_path / "run", *nodegate.command, "test", **nodegate.environment) == EXPECTED
    for wrong in (["--no-such-option"], ["--inventory=nowhere.yaml"], ["--inventory=a,", "--burn=10"]):
        ours, theirs = nodegate.run("test", *wrong), installed.run("pytest", *wrong)
        assert ours.returncode == theirs.returncode == 4
        assert [line for line in ours.stderr.splitlines() if "rror: " in line.lower()][-1].endswith(
            [line for line in theirs.stderr.splitlines() if "rror: " in line.lower()][-1].partition("rror: ")[2]
        )


def test_what_nodegate_says_is_what_can_be_typed(nodegate, tmp_path):
    done = nodegate.run("init", str(tmp_path / "site"))
    assert "nodegate test --inventory hosts.yaml" in done.stdout
    alone = nodegate.run("test", where=tmp_path / "site")
    assert alone.returncode == 4
    assert "add --inventory FILE" in alone.stderr


def test_an_inventory_that_lies_elsewhere_is_taken(installed, tmp_path):
    fleet, run = write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)]), tmp_path / "run"
    given = ["--inventory", str(fleet), "--run-dir", str(run)]
    if installed.way == "checkout":  # pytest knows no option yet, and would take the value for a path of tests
        given = [f"--inventory={fleet}", f"--run-dir={run}"]
    done = installed.run("pytest", *given, "-k", "link_width", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    again = installed.run("pytest", f"--replay={run}", "-k", "link_width", "-q", f"--run-dir={tmp_path}/again")
    assert again.returncode == 0, again.stdout + again.stderr


def test_no_conftest_of_a_folder_of_tests_is_loaded(nodegate, tmp_path):
    """That of the folder itself is: a site may have its own."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text("import nothing_here\n")
    (tmp_path / "conftest.py").write_text("def pytest_report_header():\n    return 'the word of the site'\n")
    done = nodegate.run("test", "--inventory", "gpu1,", "--collect-only", "-k", "link_width", where=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the word of the site" in done.stdout
    alone = nodegate.run("test", where=tmp_path)
    assert alone.returncode == 4
    assert "nothing_here" in alone.stderr


def test_the_shipped_examples_are_taken(installed):
    folder = Path(installed.where, installed.inventory).parent
    for example in sorted(folder.glob("example.*")):
        shown = str(example.relative_to(installed.where) if example.is_relative_to(installed.where) else example)
        listed = installed.run("pytest", f"--inventory={shown}", "--collect-only", "-q", "-k", "link_width and gpu130")
        assert listed.returncode == 0, listed.stdout + listed.stderr
        assert "test_link_width[gpu130]" in listed.stdout


def test_the_wheel_carries_checks_baselines_inventory_and_templates(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for files in ("checks/*.py", "baselines/*.yaml", "policies/*.yaml", "reports/templates/*.j2"):
        assert {f"nodegate/suite/{file.relative_to(ROOT)}" for file in ROOT.glob(files)} <= names
    assert "nodegate/suite/inventory/demo.yaml" in names
    for file in (ROOT / "docs/reference/schemas").glob("*.schema.json"):
        assert f"nodegate/suite/schemas/{file.name}" in names
    assert "nodegate/py.typed" in names
    assert not [name for name in names if not name.startswith(("nodegate/", "nodegate-"))]
