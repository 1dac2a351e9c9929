"""A session with one node of an engine outside a run: the node is lent for it, and given back with its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nodegate.engines.registry import engine
from nodegate.errors import Unreachable

if TYPE_CHECKING:
    from nodegate.engines.engine import Reach
    from nodegate.node import Node
    from nodegate.transport.session import Session

LENT_S = 3600.0


class LentAlone:
    """See `Session`."""

    def __init__(self, session: Session, reach: Reach) -> None:
        self.node, self.taken_keys = session.node, session.taken_keys
        self.run, self.start, self.hold_lock = session.run, session.start, session.hold_lock
        self._session, self._reach = session, reach

    def close(self) -> None:
        """End everything there, then give the node back."""
        try:
            self._session.close()
        finally:
            self._reach.give_back()


def connect_alone(node: Node, *, answer_s: float) -> Session:
    """Have this node lent, for an hour at most.

    Raises:
        Unreachable: it is not lent now, or not reached.
    """
    reach = engine(node.connection.transport).reach([node])
    if refused := reach.hold([node.name], time.time() + LENT_S, ended=lambda: False).refused:
        step = "wait until it is free, or reach it another way: ansible_connection in a file beside the engine's nodes"
        raise Unreachable("refused", refused[node.name], next_step=step, whose=node.name)
    try:
        return LentAlone(reach.connect(node, answer_s=answer_s), reach)
    except BaseException:
        reach.give_back()
        raise
