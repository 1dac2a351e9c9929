"""What is shipped works without this checkout: the wheel carries the suite and finds it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.recorded import run_pytest, write_fleet

from nodegate.demo.machine import Machine

ROOT = Path(__file__).parents[2]


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("nodegate-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, to stand before this checkout on sys.path."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-deps", "--target", str(folder), str(wheel))
    return folder


def test_the_wheel_carries_checks_baselines_inventory_and_templates(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, pattern in (("checks", "*.py"), ("baselines", "*.yaml"), ("reports/templates", "*.j2")):
        for file in (ROOT / folder).glob(pattern):
            assert f"nodegate/suite/{folder}/{file.name}" in names
    assert "nodegate/suite/inventory/demo.yaml" in names
    assert "nodegate/py.typed" in names
    assert not [name for name in names if not name.startswith(("nodegate/", "nodegate-"))]


def test_pytest_with_only_the_wheel_judges_a_fleet(installed: Path, tmp_path: Path) -> None:
    fleet = write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)])
    outcome = run_pytest(tmp_path, ["--inventory", str(fleet), "-v", "-k", "link_width"], PYTHONPATH=str(installed))
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    assert outcome.verdicts("pcie.link_width") == {"gpu0001": "pass"}
    assert "test_link_width[gpu0001]" in outcome.stdout


def test_the_wheel_is_what_ran(installed: Path) -> None:
    code = "import nodegate.suite as s; print(s.__file__); print(len(s.checks()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    file, count = done.stdout.split()
    assert Path(file).is_relative_to(installed)
    assert int(count) > 30
