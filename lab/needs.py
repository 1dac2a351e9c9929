"""What the lab needs of the machine that it runs on."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def why_not(what: str, programs: Sequence[str]) -> str:
    """Why this machine cannot run it; empty when it can."""
    if os.geteuid() != 0:
        return f"{what} need root (namespaces, mounts, images)"
    missing = [program for program in programs if shutil.which(program) is None]
    return f"{what}: missing programs: {', '.join(missing)} (make lab)" if missing else ""


def require(reason: str) -> None:
    """End the test where the machine cannot run it: in CI it fails, elsewhere it is skipped with the reason."""
    import pytest  # noqa: PLC0415 - the lab's command line does without

    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)
