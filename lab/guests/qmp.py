"""QEMU's control channel: commands as lines of JSON, one answer each, with events between them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

ANSWER_S = 30.0


class Qmp:
    """The channel to one QEMU."""

    def __init__(self, channel: socket.socket) -> None:
        channel.settimeout(ANSWER_S)
        self._channel = channel
        self._lines = channel.makefile("rb")

    def greet(self) -> None:
        """Wait for its greeting; before this nothing else is answered."""
        self._lines.readline()
        self.tell("qmp_capabilities")

    def tell(self, command: str, **arguments: object) -> dict[str, object]:
        """Give a command.

        Raises:
            RuntimeError: QEMU refused it, or is gone.
        """
        self._channel.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self._lines:
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"QEMU: {command}: {answer['error']['desc']}")
            if "return" in answer:
                found = answer["return"]
                return found if isinstance(found, dict) else {"return": found}
        raise RuntimeError(f"QEMU: {command}: it is gone")

    def monitor(self, line: str) -> str:
        """Give a command of the monitor for people."""
        return str(self.tell("human-monitor-command", **{"command-line": line})["return"])

    def close(self) -> None:
        """Let go of it."""
        self._lines.close()
        self._channel.close()
