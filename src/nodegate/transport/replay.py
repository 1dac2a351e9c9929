"""A node that was recorded: nothing runs, each measurement comes from a file."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from nodegate.errors import CannotMeasure
from nodegate.files.gz import Damaged, content, read_either
from nodegate.node import Node
from nodegate.records.taken_key import TakenKey
from nodegate.transport.session import LOCK_PATH, Busy, NodeLock

MAX_RECORDING_BYTES = 32 << 20
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+@=,\[\]-]*")


class ReplaySession:
    """The recordings of one node: `<recordings>/<node>/<measurement>.json`, or `.json.gz`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.taken_keys: tuple[TakenKey, ...] = ()

    def recording(self, measurement: str) -> bytes:
        """The recording of a measurement, at most 32 MiB.

        Raises:
            CannotMeasure: there is no such recording, or it cannot be read.
        """
        if not PLAIN_NAME.fullmatch(self.node.name) or not PLAIN_NAME.fullmatch(measurement):
            raise self._cannot(f"{self.node.name!r}/{measurement!r} cannot be the name of a recording", "rename it")
        path = Path(self.node.connection.recordings) / self.node.name / f"{measurement}.json"
        try:
            path, raw = read_either(path, MAX_RECORDING_BYTES)
            data = content(path, raw, MAX_RECORDING_BYTES)
        except FileNotFoundError:
            raise self._cannot(f"{measurement} was not recorded ({path})", "record it, or deselect the check") from None
        except OSError as error:
            raise self._cannot(f"{path}: {error.strerror}", "make the recording readable") from None
        except Damaged as broken:
            raise self._cannot(f"{path} {broken}", "copy it once more, whole") from None
        if len(data) > MAX_RECORDING_BYTES:
            raise self._cannot(f"{path} has more than {MAX_RECORDING_BYTES >> 20} MiB", "record it again, capped")
        return data

    def run(self, argv: Sequence[str], **_: object) -> NoReturn:
        """Programs cannot run on a recording. Raises CannotMeasure: always."""
        raise self._cannot(f"a recorded node cannot run programs ({argv[0]})", "measure it on the node itself")

    start = run

    def hold_lock(self, path: str = LOCK_PATH, **_: object) -> NodeLock | Busy:
        """Always free: reading a recording disturbs no one."""
        return NodeLock(path, lambda: None)

    def close(self) -> None:
        """Nothing to end."""

    def _cannot(self, reason: str, next_step: str) -> CannotMeasure:
        return CannotMeasure(reason, next_step=next_step, whose=self.node.name)
