"""What the documents of nodegate's load programs have in common: their schema, or why nothing was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.wire import Wire


def checked_document(wire: Wire, written: str, *, named: str, undone: str, refused_step: str) -> Mapping[str, object]:
    """The document in what a program printed, or in plain JSON.

    `named` is the document's name in a message, `undone` what was not done if the program refused to start, with the
    next step.

    Raises:
        CannotMeasure: it is damaged, too large, of another format, or says why nothing was started.
    """
    data = read.record(wire.json(written))
    if isinstance(data, Unknown) or data.get("schema") != wire.schema:
        seen = data if isinstance(data, Unknown) else shown(data.get("schema"))
        raise CannotMeasure(f"{named} is {seen}, expected {wire.schema}", next_step=wire.next_step)
    refused = value_or(read.text(data, "refused"), "")
    if refused:
        raise CannotMeasure(f"{undone}: {refused}", next_step=refused_step)
    return data
