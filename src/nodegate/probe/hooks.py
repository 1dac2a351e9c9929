"""What Slurm's hooks noted on the node: one verdict a line, the newest last. Section `hooks`."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.exit_codes import Exit
from nodegate.files import strict_json
from nodegate.probe import readings as read
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why, value_or

SCHEMA = "nodegate.spool/1"
MOST_CAUSES = 16
_WORDS = frozenset(each.word for each in Exit)
_LATEST_EPOCH_S = 1e11  # a later one is a mistake
_FIELDS = ("boot_id", "hook", "answer", "line", "done", "demands")


@dataclass(frozen=True)
class HookVerdict:
    """What a hook found and did. `sequence` grows within a boot; `done` is what it did in Slurm, or why not."""

    epoch_s: float
    boot_id: str
    sequence: int
    hook: str
    answer: str  # the word of an `Exit`
    exit: int  # of the hook, on which Slurm acts
    line: str
    done: str = ""
    causes: tuple[str, ...] = ()
    demands: str = ""


@dataclass(frozen=True)
class Hooks:
    """The verdicts, oldest first. `dropped` counts older ones, `unread` lines that are none.

    `gate` says whether hooks.conf asks that the node has passed.
    """

    verdicts: Known[tuple[HookVerdict, ...]]
    dropped: int = 0
    unread: int = 0
    gate: bool = False


def parse(found: Mapping[str, object]) -> Hooks:
    """The data of section `hooks`. A node on which no hook ran has no verdicts."""
    spool = read.body(found, "spool")
    gate = value_or(read.flag(found, "gate"), False)
    if isinstance(spool, Unknown):
        return Hooks(() if spool.why is Why.MISSING and "spool" in found else spool, gate=gate)
    verdicts, dropped, unread = list[HookVerdict](), 0, 0
    for line in spool.splitlines():
        try:
            value = read.record(strict_json.loads(line))
        except (ValueError, RecursionError):
            value = Unknown(Why.FAILED, "not JSON")
        if isinstance(value, Unknown):
            unread += 1
        elif value.get("schema") == SCHEMA:
            dropped = max(dropped, value_or(read.integer(value, "dropped"), 0))
        elif (verdict := _verdict(value)) is None:
            unread += 1
        else:
            verdicts.append(verdict)
    return Hooks(tuple(verdicts), dropped, unread, gate)


def _verdict(value: Mapping[str, object]) -> HookVerdict | None:
    """A line of the spool; None if anything in it is not as a hook writes it."""
    epoch_s = read.number(value, "epoch_s")
    sequence, code = (read.integer(value, name) for name in ("sequence", "exit"))
    words = [read.text(value, name) for name in _FIELDS]
    causes = read.items(value, "causes")
    known = [each for each in words if not isinstance(each, Unknown)]
    if isinstance(epoch_s, Unknown) or isinstance(sequence, Unknown) or isinstance(code, Unknown):
        return None
    if isinstance(causes, Unknown) or len(known) != len(words):
        return None
    boot_id, hook, answer, line, done, demands = known
    if answer not in _WORDS or sequence < 0 or not 0 <= epoch_s < _LATEST_EPOCH_S:
        return None
    named = tuple(shown(each, read.MAX_LABEL) for each in causes[:MOST_CAUSES] if isinstance(each, str))
    return HookVerdict(epoch_s, boot_id, sequence, hook, answer, code, line, done, named, demands)
