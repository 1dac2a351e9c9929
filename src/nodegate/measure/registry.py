"""Every measurement by its name: what a check may ask for besides the passive facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.measure.measurement import Measurement

MEASUREMENTS: Mapping[str, Measurement] = {}
