"""`python -m lab`: the lab's commands. `gpu` needs only python3, so nothing of the others is imported for it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# `python3 -m lab gpu` works in a bare checkout, where nothing is installed.
sys.path.append(str(Path(__file__).resolve().parents[1] / "src"))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["gpu"]:
        name, words = "lab.gpu.command", words[1:]
    else:
        name = "lab.command"
    code: int = importlib.import_module(name).main(words)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
