"""Real outputs with their truth, where this machine has them: a folder outside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "corpus"


def corpus_folder() -> Path:
    """The folder that NODEGATE_CORPUS names, else `shared/corpus` beside the checkout."""
    return Path(os.environ.get("NODEGATE_CORPUS") or _BESIDE)


def corpus(path: str) -> str:
    """The text of one recording ("smi/example.txt"); the test is skipped where it is not there."""
    file = corpus_folder() / path
    if not file.is_file():
        pytest.skip(f"no recording {path} here: set NODEGATE_CORPUS to the folder of real outputs")
    return file.read_text(encoding="utf-8", errors="replace")
