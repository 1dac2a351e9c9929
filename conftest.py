"""Makes `--inventory` known in a checkout that is not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))
pytest_plugins = ["nodegate.plugin"]
