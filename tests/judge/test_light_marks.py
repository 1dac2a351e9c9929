"""Check files that are loaded outside of pytest: their marks count, and pytest is there for whoever needs more."""

import subprocess
import sys

import pytest

from nodegate import suite
from nodegate.errors import UsageError
from nodegate.profile import Profile

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


def loaded(folder, use, more):
    (folder / "test_site.py").write_text(CHECK.replace("{use}", use))
    code = (
        "import sys; from pathlib import Path; from nodegate import suite;"
        f"found = suite.load(sorted(Path({str(folder)!r}).glob('test_*.py')));"
        f"print([(each.id, each.tier) for each in found], end=' '); {more}"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_marks_count_without_pytest_and_a_check_that_uses_more_of_it_gets_it(tmp_path):
    said = loaded(tmp_path, "pass", "print('pytest' in sys.modules)")
    assert said == "[('site.shared', 'nightly'), ('site.own', 'bootcheck')] False"
    asked = "print(found[1].function(None), 'pytest' in sys.modules)"
    assert loaded(tmp_path, "return pytest.approx(1.0) == 1.0", asked).endswith("True True")


def test_the_checks_of_a_bootcheck_are_those_of_its_tier():
    by_tier = {each.id: each.asks_for for each in suite.checks() if Profile.BOOTCHECK.includes(each.tier)}
    assert {each.id: each.asks_for for each in suite.checks_of(Profile.BOOTCHECK)} == by_tier
    assert {each.id for each in suite.checks_of(Profile.DELIVERY)} == {each.id for each in suite.checks()}


@pytest.mark.parametrize(
    "broken", ["def test_(:\n", "\x00\x00", '"""PCIe."""\nimport pytest\n\npytestmark = pytest.mar']
)
def test_a_damaged_check_file_stops_a_bootcheck(tmp_path, monkeypatch, broken):
    """Its checks would be missing, and the node would pass without them."""
    (tmp_path / "test_site.py").write_text(CHECK.replace("{use}", "pass").replace("@pytest.mark.slow\n", ""))
    later = 'import pytest\npytestmark = pytest.mark.tier("nightly")\n1 / 0\ndef test_it(): ...\n'
    (tmp_path / "test_later.py").write_text(later)
    monkeypatch.setattr(suite, "suite_folder", lambda _: tmp_path)
    assert [each.id for each in suite.checks_of.__wrapped__(Profile.BOOTCHECK)] == ["site.own"]
    (tmp_path / "test_gpu.py").write_text(broken)
    with pytest.raises((SyntaxError, ValueError, AttributeError, UsageError)):
        suite.checks_of.__wrapped__(Profile.BOOTCHECK)


def test_a_check_file_without_a_check_stops_every_run(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "suite_folder", lambda _: tmp_path)
    (tmp_path / "test_idle.py").write_text("")
    for load in (suite.checks.__wrapped__, lambda: suite.checks_of.__wrapped__(Profile.BOOTCHECK)):
        with pytest.raises(UsageError, match=r"test_idle\.py: there is no check in this file - install nodegate again"):
            load()
