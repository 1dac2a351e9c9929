"""Makes `--inventory` known in a checkout that is not installed; an installation says it by its entry point."""

import sys
from importlib import metadata
from pathlib import Path

try:
    metadata.distribution("nodegate")
except metadata.PackageNotFoundError:
    sys.path.insert(0, str(Path(__file__).parent / "src"))
    pytest_plugins = ["nodegate.plugin"]
