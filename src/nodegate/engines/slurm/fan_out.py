"""One program on many nodes in one step of Slurm, whose output comes as lines: see node_side/framed.py."""

import base64
import binascii
import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodegate.engines.engine import Answer
from nodegate.errors import Unreachable
from nodegate.node import Connection
from nodegate.node_program import node_source
from nodegate.transport.beat import BEAT, SIGN
from nodegate.transport.call import END_S, START_S, Request, bundle, guard_argv, output_in, printable
from nodegate.transport.channel import CHUNK_BYTES, PipeChannel

MOST_LINE = 1 << 16  # ours have at most 1,000 bytes
_BAD = re.compile(r"(?:failed on node|slurmstepd on node|Communication connection failure to node) ([\w.-]*\w)")
LAUNCH_S = 120.0  # a step on a node whose slurmd hangs ends after 40 s or so


@dataclass
class _Task:
    """What one task has sent."""

    node: str = ""
    data: bytearray = field(default_factory=bytearray)
    next: int = 0
    answer: Answer | None = None
    is_wrong: bool = False


@dataclass
class _Step:
    """The lines of a step. srun itself writes before each which task it is from."""

    marker: str
    request: Request
    began_s: float = field(default_factory=time.monotonic)
    tasks: dict[str, _Task] = field(default_factory=dict)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        """The next bytes of standard output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-MOST_LINE:]
        for line in lines:
            label, found, text = line.decode("utf-8", "replace").partition(f": {self.marker} ")
            if found and label.strip().isdecimal():
                task = self.tasks.setdefault(label.strip(), _Task())
                try:
                    self._take(task, *text.split(" "))
                except (ValueError, TypeError, binascii.Error, Unreachable):
                    task.is_wrong = True

    def _take(self, task: _Task, word: str, *rest: str) -> None:
        if word == "node":
            (task.node,) = rest
        elif word == "end":
            size, digest = rest
            if int(size) != len(task.data) or hashlib.sha256(task.data).hexdigest() != digest:
                raise ValueError("not what was sent")
            output = output_in(bytes(task.data), self.request, time.monotonic() - self.began_s)
            if output.exit_code is None and not output.timed_out:
                raise ValueError("the step ended the program")
            task.answer = Answer(output, time.time())
        elif int(word) == task.next and len(task.data) < 2 * self.request.max_output_bytes + CHUNK_BYTES:
            (piece,) = rest
            task.data += base64.b64decode(piece, validate=True)
            task.next += 1
        else:
            raise ValueError("a line is missing, or too many came")

    def answers(self, names: Sequence[str]) -> dict[str, Answer]:
        """Of each node whose one task has sent its end."""
        nodes = [task.node for task in self.tasks.values()]
        whole = [task for task in self.tasks.values() if task.answer and not task.is_wrong]
        return {t.node: t.answer for t in whole if t.answer and t.node in names and nodes.count(t.node) == 1}

    def bad(self, printed: str) -> frozenset[str]:
        """The nodes that srun names as what ended the step, by their names or by the numbers of their tasks."""
        by_task = {int(label): task.node for label, task in self.tasks.items()}
        named = _BAD.findall(printed)
        return frozenset(by_task.get(int(each), "") if each.isdecimal() else each for each in named)


class _Kept:
    """The lease of a step."""

    def __init__(self, channel: PipeChannel, lease_s: float) -> None:
        self.channel, self.lease_s, self.is_silent = channel, lease_s, False

    def beat(self) -> None:
        self.channel.send(SIGN, 0.0)

    def expired(self, _silent_s: float) -> None:
        self.is_silent = True


def fan_out(
    words: Sequence[str], request: Request, connection: Connection, names: Sequence[str], *, environ: Mapping[str, str]
) -> tuple[dict[str, Answer], frozenset[str]]:
    """Run a program on all nodes of a step.

    Args:
        words: srun and its options, before the task's own words.
        request: the program. It must bear to be run twice.
        connection: how these nodes are reached: their python, their lease.
        names: Slurm's names of the nodes.
        environ: srun's environment.

    Returns:
        By Slurm's name what each node answered whose end came, and the nodes that srun names as what ended the step.
    """
    request = replace(request, lease_s=connection.lease_s)
    marker = f"nodegate-{secrets.token_hex(16)}"
    argv = guard_argv(connection.python, as_root=False, lease_s=connection.lease_s)
    channel = PipeChannel([*words, "--label", *argv], environ=environ)
    kept, step = _Kept(channel, connection.lease_s), _Step(marker, request)
    try:
        channel.send(_input(marker, request, connection), START_S)
        BEAT.keep(kept)
        limit, all_begun = time.monotonic() + request.timeout_s + LAUNCH_S + END_S, False
        while time.monotonic() < limit and not kept.is_silent:
            data = channel.receive(0.5)
            if data == b"":
                break
            step.feed(data or b"")
            if not all_begun and len(step.tasks) == len(names):  # srun does not end where a slurmstepd was killed
                limit, all_begun = time.monotonic() + request.timeout_s + END_S, True
            if len(step.answers(names)) == len(names):
                break
    except (OSError, ValueError):
        pass  # what came is there
    finally:
        BEAT.leave(kept)
        printed = printable(channel.stderr(), 4000)
        channel.close()
    return step.answers(names), step.bad(printed)


def _input(marker: str, request: Request, connection: Connection) -> bytes:
    """What every task gets: the program that frames, the guard's own words, the guard's input."""
    source, given = node_source("framed").encode(), request.encode()
    argv = guard_argv(connection.python, as_root=request.as_root, lease_s=connection.lease_s)
    asked = {"argv": argv, "bytes": len(given), "marker": marker, "lease_s": connection.lease_s}
    return bundle(source, json.dumps(asked).encode(), given)
