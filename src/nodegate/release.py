"""Which release of nodegate this is."""

import functools
from importlib import metadata


@functools.cache  # it is asked for with each node's facts, and looks through the folders of sys.path
def suite_version() -> str:
    """The installed version of nodegate, or "unknown" when it runs from an uninstalled checkout."""
    try:
        return metadata.version("nodegate")
    except metadata.PackageNotFoundError:
        return "unknown"
