"""SXids, the errors of NVSwitches: where in the switch, how bad by the tables, and what to do.

The word that the line prints (Fatal, Non-fatal) takes precedence over the table: published tables contradict the
drivers for 40 codes, marked `disputed`. Sources: the driver's list of codes, NVSentinel's table, the Fabric Manager
user guide.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from nodegate.knowledge.tables import rows, texts
from nodegate.knowledge.words import Text

FATAL, NONFATAL = "Fatal", "Non-fatal"
_WORDS = "sxid_words.csv"


@dataclass(frozen=True)
class SxidRule:
    """One SXid. `fatal` is the table's word."""

    code: int
    name: str
    where: Text
    fatal: bool
    action: Text

    def action_for(self, *, fatal: bool) -> Text:
        """What to do. The printed word counts: a fatal line of a code that the table calls harmless stops the jobs."""
        return self.action if fatal == self.fatal else texts(_WORDS)["action", "fabric" if fatal else "none"]


@cache
def sxids() -> Mapping[int, SxidRule]:
    """The SXids by code."""
    words = texts(_WORDS)
    return {
        int(row["code"]): SxidRule(
            code=int(row["code"]),
            name=row["name"],
            where=words["part", row["part"]],
            fatal=row["severity"] == "fatal",
            action=words["action", row["action"]],
        )
        for row in rows("sxid.csv")
    }


def sxid_rule(code: int) -> SxidRule:
    """The rule for a code; one that the table does not have is reported, and not fatal unless its line says so."""
    return sxids().get(code) or SxidRule(
        code=code,
        name="not in the table",
        where=Text("a part of an NVSwitch that this version does not know", "本版本不认识的交换芯片部件"),
        fatal=False,
        action=texts(_WORDS)["action", "look_up"],
    )


def is_fatal(rule: SxidRule, printed: str) -> bool:
    """Whether an event is fatal: by the word in its line, else by the table."""
    return printed == FATAL if printed else rule.fatal
