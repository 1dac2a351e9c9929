"""From a node of the inventory to an open session."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from nodegate.engines.registry import ENGINES, engine
from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport.options import Options
from nodegate.transport.session import Session

if TYPE_CHECKING:
    from nodegate.engines.engine import Reach

_LENT_S = 3600.0


def connect(node: Node, options: Options) -> Session:
    """Open the node's session with the transport that the inventory names.

    Raises:
        Unreachable: with the node's name, its kind, and what to do.
    """
    try:
        return _open(node, options)
    except Unreachable as error:
        if error.whose == node.name:
            raise
        raise Unreachable(error.kind, error.reason, next_step=error.next_step, whose=node.name) from None


def _open(node: Node, options: Options) -> Session:
    # Imported where needed: paramiko takes 0.13 s, and `local` and `replay` do not need it.
    way, words = node.connection.transport, node.connection.command
    if way == "replay":
        from nodegate.transport.replay import ReplaySession  # noqa: PLC0415

        return ReplaySession(node)
    if way in {"local", "command"}:
        from nodegate.engines.messages import MESSAGES  # noqa: PLC0415
        from nodegate.transport.command import CommandSession  # noqa: PLC0415

        said = MESSAGES.get(PurePath(words[0]).name, ()) if words else ()
        return CommandSession(node, words, said)
    if way in ENGINES:
        return _alone(node)
    if way == "ssh-binary":
        from nodegate.transport.openssh import open_openssh  # noqa: PLC0415

        return open_openssh(node, options)
    from nodegate.transport.ssh import open_ssh  # noqa: PLC0415

    return open_ssh(node, options)


class _LentAlone:
    """A session with a node of an engine outside a run: the node is given back with its end."""

    def __init__(self, session: Session, reach: Reach) -> None:
        self.node, self.taken_keys = session.node, session.taken_keys
        self.run, self.start, self.hold_lock = session.run, session.start, session.hold_lock
        self._session, self._reach = session, reach

    def close(self) -> None:
        try:
            self._session.close()
        finally:
            self._reach.give_back()


def _alone(node: Node) -> Session:
    """Have this node lent, for an hour at most. Raises Unreachable: it is not lent now, or not reached."""
    reach = engine(node.connection.transport).reach([node])
    if refused := reach.hold([node.name], time.time() + _LENT_S, ended=lambda: False).refused:
        step = "wait until it is free, or reach it another way: ansible_connection in a file beside the engine's nodes"
        raise Unreachable("refused", refused[node.name], next_step=step, whose=node.name)
    try:
        return _LentAlone(reach.connect(node), reach)
    except BaseException:
        reach.give_back()
        raise
