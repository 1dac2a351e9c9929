"""Which release of nodegate this is."""

from __future__ import annotations

from importlib import metadata


def suite_version() -> str:
    """The installed version of nodegate, or "unknown" when it runs from an uninstalled checkout."""
    try:
        return metadata.version("nodegate")
    except metadata.PackageNotFoundError:
        return "unknown"
