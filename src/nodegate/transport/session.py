"""What every transport gives: an open session with one node, on which programs are run within limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodegate.node import Node

MAX_OUTPUT_BYTES = 4 << 20


@dataclass(frozen=True)
class Output:
    """What a program on a node left behind.

    `exit_code` is None when the program was ended by us (`timed_out`, or a lost connection). `truncated` is true when
    it wrote more than the limit; what came first is kept. Durations are seconds by the controller's clock.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    duration_s: float
    timed_out: bool = False
    truncated: bool = False


class Session(Protocol):
    """An open session with one node. One connection per node for the whole run; safe to use from several threads."""

    node: Node

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        as_root: bool = False,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> Output:
        """Run a program on the node, in its own process group, and wait for it.

        The program and all its children end at `timeout_s`, when we close, and when we die, `kill -9` included.
        `as_root` uses `sudo -n` where the login is not root.

        Raises:
            Unreachable: the connection broke, or there is no sudo, or no python3 on the node.
        """
        ...

    def close(self) -> None:
        """End everything that was started on the node, then the connection. May be called twice."""
        ...
