"""Something that happened to a node or a part between two runs."""

from dataclasses import dataclass

XID, BOOT, REPAIR, ACCEPT_AGAIN = "xid", "boot", "repair", "accept_again"
HOOK, HOOK_FIT, HOOK_DROPPED, HOOK_UNREAD = "hook", "hook_fit", "hook_dropped", "hook_unread"
DRAIN, DOWN, IN_SERVICE = OF_SLURM = ("drain", "down", "in_service")
# In events.jsonl too: their node or Slurm drops them.
KEPT_TWICE = frozenset((HOOK, HOOK_FIT, HOOK_DROPPED, HOOK_UNREAD, *OF_SLURM))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a node or a part.

    `kind` is a word: `XID`, `BOOT`, `REPAIR`, `ACCEPT_AGAIN`, `HOOK` (a hook's verdict that was another than the one
    before it; `source` is its boot and number), `HOOK_FIT` (how often hooks found the node fit in a day of a boot:
    `text` is the number, `source` the boot), `HOOK_DROPPED` and `HOOK_UNREAD` (how many verdicts their node dropped
    before a run came, those before this time, and how many lines could not be read), or one of `OF_SLURM`, with the
    reason that Slurm had. `part` is its key in the record, `source` who says so.
    """

    epoch_s: float
    kind: str
    node: str
    part: str
    source: str
    text: str
