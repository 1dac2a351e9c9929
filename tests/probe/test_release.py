"""Which release of nodegate this is."""

from collections.abc import Iterator
from importlib import metadata

import pytest

from nodegate.release import suite_version


@pytest.fixture(autouse=True)
def _not_yet_asked() -> Iterator[None]:
    suite_version.cache_clear()
    yield
    suite_version.cache_clear()


def test_the_version_is_looked_up_once_for_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(metadata, "version", lambda name: asked.append(name) or "1.2.3")
    assert [suite_version(), suite_version()] == ["1.2.3", "1.2.3"]
    assert asked == ["nodegate"]


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert suite_version() == "unknown"
