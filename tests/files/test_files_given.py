"""Files that a user names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nodegate.errors import UsageError
from nodegate.files import strict_yaml


def test_a_pipe_without_a_writer_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "hosts.yaml"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="it is a pipe, and no program writes to it"):
        strict_yaml.read_text(pipe)
    text = "all:\n  hosts:\n    gpu1:\n" + "# x\n" * 50_000
    (tmp_path / "source").write_text(text)
    with subprocess.Popen(["cat", tmp_path / "source"], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert strict_yaml.read_text(Path("/proc/self/fd", str(program.stdout.fileno()))) == text
