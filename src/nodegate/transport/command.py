"""A node over any program that starts another one there and passes its input and output on; with none, this machine.

The words of the program on the node come after those of the inventory's nodegate_command; no shell of ours sees them,
and there must be none on the way. The end of such a program need not be the end of what it started: a lease ends that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodegate.errors import Unreachable
from nodegate.node import Node
from nodegate.transport.call import LOGIN_STEP, guard_argv
from nodegate.transport.channel import Channel, PipeChannel
from nodegate.transport.guarded import GuardedSession

PYTHON_STEP = "install python3 (3.6 or newer), or name it with ansible_python_interpreter in the inventory"
COMMAND_STEP = "install it on this machine, or correct nodegate_command in the inventory"


@dataclass(frozen=True)
class Said:
    """What a program prints where it cannot start ours: a pattern, the kind of `Unreachable`, and what to do."""

    pattern: str
    kind: str
    next_step: str


class CommandSession(GuardedSession):
    """A session by a command. `words` begin each program, `messages` are what the command itself may say.

    Without words the programs are this machine's own, and end with the controller as on a node. `environ` is the
    command's environment; by default our own.
    """

    broken_exit: int | None = None  # the exit status with which the command says that it lost the node

    def __init__(
        self,
        node: Node,
        words: Sequence[str] = (),
        messages: Sequence[Said] = (),
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(node)
        self._words, self._messages, self._environ = tuple(words), tuple(messages), environ
        self.login_step = f"try it by hand: {' '.join(self._words)} true" if words else LOGIN_STEP

    def why(self, said: str) -> Unreachable | None:
        """See `GuardedSession`."""
        found = next((each for each in self._messages if re.search(each.pattern, said)), None)
        if found is None:
            return None
        return Unreachable(found.kind, f"{self._words[0]}: {said}", next_step=found.next_step, whose=self.node.name)

    def _argv(self, *, as_root: bool) -> list[str]:
        """The guard's words behind those of the command."""
        connection = self.node.connection
        return guard_argv(connection.python, as_root=as_root, lease_s=connection.lease_s)

    def _channel(self, *, as_root: bool) -> Channel:
        argv = [*self._words, *self._argv(as_root=as_root)]
        try:
            return PipeChannel(argv, broken_exit=self.broken_exit, environ=self._environ)
        except OSError as error:
            kind, step = ("configuration", COMMAND_STEP) if self._words else ("no-python", PYTHON_STEP)
            reason = f"{argv[0]} did not start here: {error.strerror}"
            raise Unreachable(kind, reason, next_step=step, whose=self.node.name) from None
