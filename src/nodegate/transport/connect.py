"""From a node of the inventory to an open session."""

from nodegate.engines.registry import ENGINES, messages_of
from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport.options import Options
from nodegate.transport.session import Session


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
        from nodegate.transport.command import CommandSession  # noqa: PLC0415

        return CommandSession(node, words, messages_of(words[0]) if words else (), answer_s=options.answer_s)
    if way in ENGINES:
        from nodegate.engines.alone import connect_alone  # noqa: PLC0415

        return connect_alone(node, answer_s=options.answer_s)
    if way == "ssh-binary":
        from nodegate.transport.openssh import open_openssh  # noqa: PLC0415

        return open_openssh(node, options)
    from nodegate.transport.ssh import open_ssh  # noqa: PLC0415

    return open_ssh(node, options)
