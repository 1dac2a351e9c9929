"""Which Xid of a GPU is the root cause, and which only follow from it: one root cause per GPU and incident."""

from nodegate.knowledge.tables import XidKind, XidRule
from nodegate.records.verdict import Verdict

# Events that are so close belong to one incident (NVIDIA's own tools take 3 minutes).
INCIDENT_S = 180.0
# Lines of one event may be out of order.
SLACK_S = 5.0
_CHANNEL_STOPPED = 43  # follows the error that stopped the program
# What follows a root cause on the same GPU, in addition to the consequences (45, 43) that any error can have. A failed
# row remap (64) is in none: it remains when the rest is reset.
_AFTER_A_LOSS = frozenset({32, 46, 62, 74, 109, 119, 120, 143, 158, 175})
_AFTER_MEMORY = frozenset({13, 31, 63, 109, 119, 120, 156, 171, 172, 175})
_BRINGS = {
    79: _AFTER_A_LOSS | {167},
    167: _AFTER_A_LOSS,
    48: _AFTER_MEMORY | {94, 95},
    95: _AFTER_MEMORY | {94},
    140: _AFTER_MEMORY | {94, 95},
    94: frozenset({63}),
}


def follows(rule: XidRule, other: XidRule, cause: int | None) -> bool:
    """Whether an Xid can have followed from another one of the same GPU and incident.

    `cause` is the Xid that the line itself blames, if any.
    """
    if rule.code in _BRINGS.get(other.code, ()):
        return True
    if other.kind is XidKind.CONSEQUENCE or other.code == _CHANNEL_STOPPED or other.delivery is Verdict.PASS:
        return False  # roots only; a test message is not one
    may = rule.kind is XidKind.CONSEQUENCE or rule.code == _CHANNEL_STOPPED
    return may and cause in (None, other.code)
