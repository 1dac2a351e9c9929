"""The local machine, and a node over any program that starts another one there and passes its input and output on.

The words of the program on the node come after those of the inventory's nodegate_command; no shell of ours sees them,
and there must be none on the way. The end of such a program need not be the end of what it started: a lease ends that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport.call import guard_argv
from nodegate.transport.channel import Channel, PipeChannel
from nodegate.transport.guarded import GuardedSession


@dataclass(frozen=True)
class Said:
    """What a program prints where it cannot start ours: a pattern, the kind of `Unreachable`, and what to do."""

    pattern: str
    kind: str
    next_step: str


class CommandSession(GuardedSession):
    """A session by a command. `words` begin each program, `messages` are what the command itself may say.

    `environ` is the command's environment; by default our own.
    """

    def __init__(
        self,
        node: Node,
        words: Sequence[str],
        messages: Sequence[Said] = (),
        *,
        answer_s: float,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(node, answer_s=answer_s)
        self._words, self._messages, self._environ = tuple(words), tuple(messages), environ
        self.login_step = f"try it by hand: {' '.join(self._words)} true"

    def why(self, said: str) -> Unreachable | None:
        """See `GuardedSession`."""
        found = next((each for each in self._messages if re.search(each.pattern, said)), None)
        if found is None:
            return None
        return Unreachable(found.kind, f"{self._words[0]}: {said}", next_step=found.next_step, whose=self.node.name)

    def _channel(self, *, as_root: bool) -> Channel:
        connection = self.node.connection
        argv = guard_argv(connection.python, as_root=as_root, lease_s=connection.lease_s)
        try:
            return PipeChannel([*self._words, *argv], environ=self._environ)
        except OSError as error:
            reason = f"{self._words[0]} did not start here: {error.strerror}"
            step = "install it on this machine, or correct nodegate_command in the inventory"
            raise Unreachable("configuration", reason, next_step=step, whose=self.node.name) from None


class LocalSession(GuardedSession):
    """Programs of this machine, ended with the controller as on a node."""

    def _channel(self, *, as_root: bool) -> Channel:
        argv = guard_argv(self.node.connection.python, as_root=as_root)
        try:
            return PipeChannel(argv)
        except OSError as error:
            reason = f"{argv[0]} did not start: {error.strerror}"
            step = "install python3 (3.6 or newer), or name it with ansible_python_interpreter in the inventory"
            raise Unreachable("no-python", reason, next_step=step, whose=self.node.name) from None
