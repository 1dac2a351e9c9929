"""Which release of nodegate this is."""

from importlib import metadata

import pytest

from nodegate.release import suite_version


def test_the_version_is_looked_up_once_for_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    suite_version.cache_clear()
    asked: list[str] = []
    monkeypatch.setattr(metadata, "version", lambda name: asked.append(name) or "1.2.3")
    try:
        assert [suite_version(), suite_version()] == ["1.2.3", "1.2.3"]
        assert asked == ["nodegate"]
    finally:
        suite_version.cache_clear()


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    suite_version.cache_clear()

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    try:
        assert suite_version() == "unknown"
    finally:
        suite_version.cache_clear()
