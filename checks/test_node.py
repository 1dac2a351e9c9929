"""The node itself: it can be reached and says who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import part, value_or

if TYPE_CHECKING:
    from nodegate.api import Host, Verdicts

pytestmark = pytest.mark.tier("bootcheck")


def test_reachable(host: Host, verdicts: Verdicts) -> None:
    """The node responds over its connection and reports its name. (F10)

    A node that does not respond takes every job on it with it. It is a verdict of its own (`unreachable`), never a gap
    in the report: all its other checks are `error` too.
    """
    verdicts.passed(
        part=part.NODE, text=f"responds as {host.hostname}", quantity="hostname", observed=value_or(host.hostname, "")
    )
