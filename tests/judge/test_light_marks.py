"""Check files that are loaded outside of pytest: their marks count, and pytest is there for whoever needs more."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from nodegate import suite
from nodegate.profile import Profile

if TYPE_CHECKING:
    from pathlib import Path

CHECK = '''"""Site."""
import pytest

pytestmark = pytest.mark.tier("nightly")


def test_shared(verdicts):
    """It is so (F01)."""


@pytest.mark.tier("bootcheck")
@pytest.mark.slow
def test_own(verdicts):
    """It is so (F01)."""
    {use}
'''


def loaded(folder: Path, use: str, more: str) -> str:
    (folder / "test_site.py").write_text(CHECK.replace("{use}", use))
    code = (
        "import sys; from pathlib import Path; from nodegate import suite;"
        f"found = suite.load(Path({str(folder)!r})); print([(each.id, each.tier) for each in found], end=' '); {more}"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_marks_count_without_pytest(tmp_path: Path) -> None:
    said = loaded(tmp_path, "pass", "print('pytest' in sys.modules)")
    assert said == "[('site.shared', 'nightly'), ('site.own', 'bootcheck')] False"


def test_a_check_that_uses_more_of_pytest_gets_it(tmp_path: Path) -> None:
    said = loaded(
        tmp_path, "return pytest.approx(1.0) == 1.0", "print(found[1].function(None), 'pytest' in sys.modules)"
    )
    assert said.endswith("True True")


def test_the_checks_of_a_bootcheck_are_those_of_its_tier() -> None:
    by_tier = {each.id: each.asks_for for each in suite.checks() if Profile.BOOTCHECK.includes(each.tier)}
    assert {each.id: each.asks_for for each in suite.checks_of(Profile.BOOTCHECK)} == by_tier
    assert {each.id for each in suite.checks_of(Profile.DELIVERY)} == {each.id for each in suite.checks()}
