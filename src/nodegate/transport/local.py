"""The local machine, under the same guard as a node over SSH."""

from nodegate.errors import Unreachable
from nodegate.transport.call import guard_argv
from nodegate.transport.channel import Channel, PipeChannel
from nodegate.transport.guarded import GuardedSession


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
