"""A notice is brought to its target: attempts with pauses between them, within a time limit."""

from __future__ import annotations

import threading
import time
from importlib import import_module

from nodegate.notices.message import Notice
from nodegate.notices.target import NotSent, Target
from nodegate.text import visible

ATTEMPT_S = 10.0  # of a module without a LIMIT_S of its own
TOTAL_S = 30.0  # of all attempts for one target
PAUSES_S = (1.0, 4.0)
_LONGEST = 300


def deliver(target: Target, notice: Notice) -> NotSent | None:
    """Send a notice; returns what went wrong, without a secret, or None."""
    end, pauses = time.monotonic() + TOTAL_S, list(PAUSES_S)
    while True:
        failed = _within(target, notice, min(ATTEMPT_S, max(0.1, end - time.monotonic())))
        if failed is None:
            return None
        wait = max(pauses.pop(0), failed.after_s) if pauses and failed.again else TOTAL_S
        if time.monotonic() + wait >= end:
            break
        time.sleep(wait)
    return NotSent(target.without_secrets(visible(str(failed), most=_LONGEST)), keep=failed.keep)


def _within(target: Target, notice: Notice, limit_s: float) -> NotSent | None:
    """One attempt. Looking up a name or an answer of one byte a second has no limit of its own, so a thread has it."""
    module, results = import_module(f"nodegate.notices.{target.scheme}"), list[NotSent | None]()
    limit_s = getattr(module, "LIMIT_S", limit_s)

    def attempt() -> None:
        try:
            module.send(target, notice, limit_s)
            results.append(None)
        except NotSent as said:
            results.append(said)
        except Exception as fault:  # noqa: BLE001 - no fault of a target, or of ours here, may end a run
            results.append(target.failed(f"an internal error ({type(fault).__name__})"))

    thread = threading.Thread(target=attempt, daemon=True, name=f"notice to {target.scheme}")
    thread.start()
    thread.join(limit_s + 1.0)
    return results[0] if results else target.failed(f"no answer within {limit_s:.0f} s")
