"""A page of the guide, typed block by block."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.pages import GUIDE


class Typed:
    """The blocks of shell commands of a page, typed one after the other in a folder."""

    def __init__(self, page, folder, **environ):
        text = (GUIDE / page).read_text("utf-8")
        self.left: list[str] = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._folder, self._environ = folder, {**os.environ, "PATH": path, "COLUMNS": "120", **environ}

    def next(self):
        """Type the next block; the exit code of its last command, and what is printed."""
        words = ["bash", "-c", self.left.pop(0)]
        done = subprocess.run(
            words, cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout + done.stderr
