"""Where the lab keeps its images: outside the tree, so that nothing of it can be committed."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "nodegate-lab"
