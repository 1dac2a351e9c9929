"""Which limit keys are known: a site's checks name keys of their own, and a slip of any of them is refused."""

from pathlib import Path

import pytest

from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.node import Node
from nodegate.suite import limit_keys_in

CHECK = '''"""Memory, as in "host.memory_words"."""
WANTED = "host.memory_slots"


def test_memory(host, baseline, verdicts):
    """Not "host.memory_lines".  # nor 'host.memory_comments'"""
    limit = baseline.number("host.memory_bytes")
    helper(baseline, WANTED, f"host.{limit}")
'''


def baseline_file(folder: Path, key: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "memory.yaml"
    file.write_text(f'platform: "*"\nlimits:\n  {key}: {{value: 8, unit: bytes, source: "our order"}}\n')
    return file


def check_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "test_memory.py"
    file.write_text(CHECK)
    return file


def test_the_keys_of_a_check_are_those_of_its_code(tmp_path):
    file = check_file(tmp_path)
    assert limit_keys_in(file) == {"host.memory_slots", "host.memory_bytes"}
    file.write_text('baseline.number("host.memory_bytes"')  # not Python
    assert limit_keys_in(file) == frozenset()


def test_a_key_that_only_a_check_of_the_site_asks_for_is_accepted(tmp_path):
    checks = [check_file(tmp_path / "site/checks")]
    file = baseline_file(tmp_path / "elsewhere", "host.memory_bytes")
    assert Baselines.read([file], checks).common["host.memory_bytes"].value == 8
    with pytest.raises(UsageError, match=r"no check asks for host\.memory_bytes - did you mean host\.memory_gib\?"):
        Baselines.read([file])


@pytest.mark.parametrize("place", ["site", "site/baselines"])
def test_checks_beside_the_baseline_need_not_be_named(tmp_path, place):
    check_file(tmp_path / "site/checks")
    file = baseline_file(tmp_path / place, "host.memory_bytes")
    assert "host.memory_bytes" in Baselines.read([file]).common


def test_a_slip_of_a_key_of_the_site_is_refused_with_the_near_match(tmp_path):
    checks = [check_file(tmp_path / "checks")]
    with pytest.raises(
        UsageError, match=r"memory\.yaml:3: no check asks for host\.memory_byte - did you mean host\.memory_bytes\?"
    ):
        Baselines.read([baseline_file(tmp_path, "host.memory_byte")], checks)


def test_the_inventory_may_set_a_key_of_the_site_and_a_slip_is_refused(tmp_path):
    baselines = Baselines.read((), [check_file(tmp_path / "checks")])
    baselines.check_expected([Node("gpu01", expected={"limits": {"host.memory_bytes": 8}})])
    slip = Node("gpu01", expected={"limits": {"host.memory_byte": 8}}, origin="hosts.yaml:7")
    with pytest.raises(UsageError, match=r"unknown limit 'host\.memory_byte' - did you mean host\.memory_bytes\?"):
        baselines.check_expected([slip])
