"""When a kernel line still speaks about the node: this boot or an earlier one, within the window or before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from nodegate.knowledge.tables import Lasts
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline
    from nodegate.knowledge.tables import Rule
    from nodegate.probe.host import Host
    from nodegate.probe.kernel_log import KernelLog

# The clock is often stepped after the first messages of a boot: a line so little before it belongs to it.
CLOCK_STEP_S = 60.0


@dataclass(frozen=True)
class LogWindow:
    """The frame in which kernel lines are judged. Times are the node's own clock, in seconds."""

    now_s: float
    boot_s: Known[float]
    window_h: float
    profile: Profile

    @staticmethod
    def of(
        log: KernelLog, host: Host, baseline: Baseline, profile: Profile, *, key: str = "kernel.log_window_h"
    ) -> LogWindow:
        """The frame for this log; `key` is the limit that says how many hours count.

        Raises:
            NotJudged: there is no such limit.
        """
        hours = baseline.number(key).value
        return LogWindow(now_s=host.clock_epoch_s, boot_s=log.boot_epoch_s, window_h=hours, profile=profile)

    def earlier_boot(self, epoch_s: Known[float]) -> bool:
        """Whether the line is known to be of an earlier boot; one without a time counts as of this boot."""
        return is_before_boot(epoch_s, self.boot_s)

    def recent(self, epoch_s: Known[float]) -> bool:
        """Whether the line is in the window; one without a time counts as in it."""
        return isinstance(epoch_s, Unknown) or epoch_s >= self.now_s - self.window_h * 3600

    def weigh(self, rule: Rule, epoch_s: Known[float]) -> tuple[Verdict, str]:
        """The verdict on an event that was last seen at `epoch_s`, and a remark on its age."""
        fresh = rule.delivery if self.profile is Profile.DELIVERY else rule.bootcheck
        return self.aged(fresh, rule.lasts, epoch_s)

    def aged(
        self, fresh: Verdict, lasts: Lasts, epoch_s: Known[float], *, settled_s: float | None = None
    ) -> tuple[Verdict, str]:
        """The same for an event that would have the verdict `fresh` if it happened now.

        A fault that a reboot has settled, or a reset at `settled_s`, warns while it is recent and at delivery; later it
        passes and is only mentioned. What neither settles (a failed row remap) stays as it is.
        """
        if lasts is Lasts.WINDOW:
            settled = "" if self.recent(epoch_s) else f"more than {self.window_h:g} h ago"
        elif not self.earlier_boot(epoch_s):
            reset = settled_s is not None and lasts is Lasts.BOOT
            settled = f"settled: the driver has asked for no action since {shown(settled_s or 0.0)}" if reset else ""
        elif lasts is Lasts.GOOD:
            return fresh, "before this boot; only a new part settles it, a reboot does not"
        elif lasts is Lasts.COLD:
            return Verdict.WARN, "before this boot; settled only if the node was powered off since"
        else:
            settled = f"settled by the reboot at {shown(self.boot_s)}"
        if not settled:
            return fresh, ""
        warns = self.profile is Profile.DELIVERY or self.recent(epoch_s)
        return (Verdict.WARN if warns and fresh is not Verdict.PASS else Verdict.PASS), settled


def is_before_boot(epoch_s: Known[float], boot_s: Known[float]) -> bool:
    """Whether a line is known to be of an earlier boot; one without a time counts as of this boot."""
    if isinstance(epoch_s, Unknown) or isinstance(boot_s, Unknown):
        return False
    return epoch_s < boot_s - CLOCK_STEP_S


def shown(epoch_s: Known[float]) -> str:
    """A time for people, in UTC."""
    if isinstance(epoch_s, Unknown):
        return "an unknown time"
    try:
        return datetime.fromtimestamp(epoch_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an impossible time"


def times(count: int, first_s: Known[float], last_s: Known[float]) -> str:
    """How often and when: "once at ...", "14 times from ... to ..."."""
    if count == 1:
        return f"once at {shown(first_s)}"
    if shown(first_s) == shown(last_s):
        return f"{count} times at {shown(first_s)}"
    return f"{count} times from {shown(first_s)} to {shown(last_s)}"
