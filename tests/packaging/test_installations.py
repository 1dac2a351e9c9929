"""The main job works in every way nodegate is installed, with its runtime dependencies alone.

One environment for all: the ways are installed one after the other, each over the one before.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.recorded import write_fleet

from nodegate.demo.machine import Machine
from nodegate.report.jsonl import read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CHOICE = ["--nodes", "hgx0[6-7]", "-k", "link_width"]  # one of the two has a bad NIC slot
FILES = {"run.json", "results.jsonl", "report.json", "report.html", "junit.xml", "results.csv", "metrics.prom"}


@dataclass(frozen=True)
class Installation:
    """A way nodegate is installed, and the folder its user stands in."""

    way: str
    bin: Path
    where: Path
    inventory: str

    def run(self, *command: str, where: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command with nothing on PATH but this installation's programs and the system's."""
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


def pip(python: Path | str, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone of this checkout holds, with what is not committed yet."""
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
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(clone))
    return next(folder.glob("nodegate-*.whl"))


@pytest.fixture(scope="module")
def environment(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the runtime dependencies and nothing else; the folder of its programs."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    project = tomllib.loads((clone / "pyproject.toml").read_text())["project"]
    pip(folder / "bin" / "python", "install", *project["dependencies"])
    return folder / "bin"


@pytest.fixture(scope="module", params=["checkout", "editable", "wheel"])
def installed(
    request: pytest.FixtureRequest,
    clone: Path,
    wheel: Path,
    environment: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    python = environment / "python"
    if request.param == "checkout":
        yield Installation("checkout", environment, clone, "inventory/demo.yaml")
        return
    pip(python, "install", "--no-deps", *(["--editable", str(clone)] if request.param == "editable" else [str(wheel)]))
    if request.param == "editable":
        yield Installation("editable", environment, clone, "inventory/demo.yaml")
    else:
        where = tmp_path_factory.mktemp("elsewhere")
        code = "import nodegate.paths as paths; print(paths.suite_folder('inventory'))"
        folder = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        yield Installation("wheel", environment, where, f"{folder.stdout.strip()}/demo.yaml")
    pip(python, "uninstall", "--yes", "nodegate")


def judged(installed: Installation, run_dir: Path, *command: str, **environment: str) -> Judged:
    """A run over two nodes of the demo fleet, of which one has a fault."""
    done = installed.run(
        *command, "--inventory", installed.inventory, *CHOICE, "-v", "--run-dir", str(run_dir), **environment
    )
    assert "Traceback" not in done.stdout + done.stderr
    items = sorted(set(re.findall(r"test_\w+\.py::test_\w+\[\w+\]", done.stdout)))
    records = read(run_dir / "results.jsonl") if run_dir.exists() else []
    verdicts = {(record.check, record.node): record.verdict.value for record in records}
    return Judged(done.returncode, items, verdicts, {each.name for each in run_dir.glob("*")} & FILES)


EXPECTED = Judged(
    1,
    ["test_pcie.py::test_link_width[hgx06]", "test_pcie.py::test_link_width[hgx07]"],
    {("pcie.link_width", "hgx06"): "pass", ("pcie.link_width", "hgx07"): "fail"},
    FILES,
)


@pytest.mark.parametrize("command", [["pytest"], ["python", "-m", "pytest"], ["pytest", "-n", "2"]], ids=" ".join)
def test_pytest_judges_the_fleet(installed: Installation, tmp_path: Path, command: list[str]) -> None:
    assert judged(installed, tmp_path / "run", *command) == EXPECTED


@pytest.fixture
def alone_on_path(installed: Installation, tmp_path: Path) -> str:
    """A PATH with `nodegate` and no `pytest`, as pipx leaves it."""
    if installed.way == "checkout":
        pytest.skip("there is no program nodegate without an installation")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nodegate").symlink_to(installed.bin / "nodegate")
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    assert shutil.which("pytest", path=path) is None
    return path


def test_nodegate_test_is_pytest(installed: Installation, alone_on_path: str, tmp_path: Path) -> None:
    program = str(tmp_path / "bin" / "nodegate")
    assert judged(installed, tmp_path / "run", program, "test", PATH=alone_on_path) == EXPECTED
    assert judged(installed, tmp_path / "two", program, "test", "-n", "2", PATH=alone_on_path) == EXPECTED
    for wrong in (["--no-such-option"], ["--inventory", "nowhere.yaml"], ["--inventory", "a,", "--burn", "10"]):
        ours = installed.run(program, "test", *wrong, PATH=alone_on_path)
        theirs = installed.run("pytest", *wrong)
        assert ours.returncode == theirs.returncode == 4
        assert ours.stderr.splitlines()[-1] == theirs.stderr.splitlines()[-1]


def test_what_nodegate_says_is_what_can_be_typed(installed: Installation, alone_on_path: str, tmp_path: Path) -> None:
    done = installed.run(str(tmp_path / "bin" / "nodegate"), "init", str(tmp_path / "site"), PATH=alone_on_path)
    assert "nodegate test --inventory hosts.yaml" in done.stdout
    alone = installed.run(str(tmp_path / "bin" / "nodegate"), "test", where=tmp_path / "site", PATH=alone_on_path)
    assert alone.returncode == 4
    assert "say --inventory FILE" in alone.stderr


def test_any_other_inventory_is_taken(installed: Installation, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)])
    given = [f"--inventory={fleet}"] if installed.way == "checkout" else ["--inventory", str(fleet)]
    done = installed.run("pytest", *given, "-k", "link_width", "-q", "--run-dir", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    listed = installed.run("pytest", "--inventory=gpu[1-2],", "--collect-only", "-q")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "test_pcie.py::test_link_width[gpu2]" in listed.stdout


def test_the_shipped_examples_are_taken(installed: Installation) -> None:
    folder = Path(installed.where, installed.inventory).parent
    for example in sorted(folder.glob("example.*")):
        shown = str(example.relative_to(installed.where) if example.is_relative_to(installed.where) else example)
        listed = installed.run("pytest", "--inventory", shown, "--collect-only", "-q", "-k", "link_width and gpu130")
        assert listed.returncode == 0, listed.stdout + listed.stderr
        assert "test_link_width[gpu130]" in listed.stdout


def test_the_projects_own_tests_are_named_by_their_folder(clone: Path) -> None:
    """With what they need: the environment that runs this."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/packaging", "--collect-only", "-q"],
        cwd=clone,
        env={**os.environ, "PY_COLORS": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "tests/packaging/test_installations.py::" in listed.stdout


def test_the_wheel_carries_checks_baselines_inventory_and_templates(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, pattern in (("checks", "*.py"), ("baselines", "*.yaml"), ("reports/templates", "*.j2")):
        for file in (ROOT / folder).glob(pattern):
            assert f"nodegate/suite/{folder}/{file.name}" in names
    assert "nodegate/suite/inventory/demo.yaml" in names
    assert "nodegate/py.typed" in names
    assert not [name for name in names if not name.startswith(("nodegate/", "nodegate-"))]
