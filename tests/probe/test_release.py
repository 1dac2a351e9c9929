"""Which release of nodegate this is."""

from importlib import metadata

import pytest

from nodegate.release import suite_version


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert suite_version.__wrapped__() == "unknown"
