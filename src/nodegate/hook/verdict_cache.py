"""What a hook knows about its node, and how it caches that for the next one.

That is a file of this boot that only root or this user can have written.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from nodegate.exit_codes import Exit
from nodegate.files.atomic import replacing
from nodegate.files.bounded import read_trusted

FILE = Path("/run/nodegate/verdict.json")
_SCHEMA = "nodegate.kept/2"
_MOST_BYTES = 16 << 10
_MOST_CAUSES = 16
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Answer:
    """The result of a bootcheck; `age_s` is its age if it was cached, else None.

    `causes` are the ids of its causes, `demands` is the hash of what the site asks of the node.
    """

    exit: Exit
    line: str
    age_s: float | None = None
    causes: tuple[str, ...] = ()
    demands: str = ""

    def shown(self) -> str:
        """The line, with its age."""
        return self.line if self.age_s is None else f"{self.line} (checked {self.age_s:.0f} s ago)"


def now_s() -> float:
    """Seconds since this boot, including suspended time: a clock that cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def keep(file: Path, asked: str, answer: Answer, measured_s: float) -> None:
    """Store a verdict. `asked` says from which limits it comes, `measured_s` when the measurement began.

    Raises:
        OSError: the file cannot be written.
    """
    if not file.parent.exists():
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    causes = answer.causes[:_MOST_CAUSES]
    said = {"exit_code": int(answer.exit), "line": answer.line, "causes": causes, "demands": answer.demands}
    with replacing(file) as written:
        os.fchmod(written.fileno(), 0o644)
        json.dump({"schema": _SCHEMA, "boot": boot_id(), "measured_s": measured_s, "asked": asked, **said}, written)


def kept(file: Path, asked: str, not_before_s: float) -> Answer | None:
    """The cached verdict, if it can be trusted, is from the same limits and is not too old."""
    try:
        said = json.loads(read_trusted(file, _MOST_BYTES))
        measured_s = float(said["measured_s"])
        causes, age_s = tuple(map(str, said["causes"])), now_s() - measured_s
        answer = Answer(Exit(said["exit_code"]), str(said["line"]), age_s, causes, str(said["demands"]))
        same = (said["schema"], said["boot"], said["asked"]) == (_SCHEMA, boot_id(), asked)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return answer if same and not_before_s <= measured_s <= now_s() else None


def boot_id() -> str:
    """The kernel's name for this boot."""
    return _BOOT.read_text().strip()
