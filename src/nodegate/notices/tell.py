"""Notices of runs and of events are sent, or kept until the next one. What is lost changes no verdict.

A target is sent what is new since the last run that it was sent; if nothing changed, nothing. A run that was
interrupted or judged no node, and an event, are always sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import UsageError
from nodegate.notices.message import MOST_ITEMS, Notice
from nodegate.notices.target import WEB, NotSent, Target
from nodegate.text import visible
from nodegate.words.catalogue import words

if TYPE_CHECKING:
    from nodegate.notices.box import Box, Sent
    from nodegate.notices.news import News
    from nodegate.report.model import Report

    # A notice and what its target then knows, from the target and what it knows; None: nothing to send, nothing new
    Make = Callable[[Target, Sent | None], tuple[Notice | None, Sent | None]]

FOLDER = "notices"  # beside the record
INTERRUPTED, NOTHING_JUDGED = "interrupted", "nothing-judged"
ALWAYS = (INTERRUPTED, NOTHING_JUDGED)  # sent even if nothing changed
ATTEMPT_S = 10.0  # of a module without a LIMIT_S of its own
TOTAL_S = 30.0  # of all attempts for one target
PAUSES_S = (1.0, 4.0)
_LONGEST = 300


def tell_run(
    folder: Path,
    targets: Sequence[Target],
    record: Path,
    lang: str,
    *,
    entrance: str = "pytest",
    report: Report | None = None,
    everything: bool = False,
) -> list[str]:
    """Send what is new in a run; returns a line for each notice that could not be sent.

    A run folder without a report is an event, one that judged another run's evidence is not sent. Beside the `record`
    is what the targets know; if it cannot be read, or with `everything`, all open problems are sent as new.
    """
    if not targets:
        return []
    from nodegate.notices.box import Sent  # noqa: PLC0415 - a watch has none of this
    from nodegate.notices.news import news  # noqa: PLC0415
    from nodegate.report.json_file import load  # noqa: PLC0415

    try:
        read = report or load(folder)
    except UsageError as said:
        return tell_event("no-report", {"run": folder, "reason": said}, targets, record, lang, entrance=entrance)
    if read.run.evidence and report is None:
        return []
    lost = everything or not _is_readable(record)

    def make(target: Target, known: Sent | None) -> tuple[Notice | None, Sent | None]:
        is_older = known is not None and read.run.started_epoch_s < known.started_epoch_s
        found = news(read, Sent(target.name) if known is None or is_older else known, everything=lost)
        notice = _of_run(read, found, lang, entrance, folder)
        is_sent = known is None or is_older or lost or found.new or found.gone or notice.result in ALWAYS
        return notice if is_sent else None, None if is_older else found.after

    return _each(targets, record, make)


def tell_event(
    kind: str,
    text_fields: Mapping[str, object],
    targets: Sequence[Target],
    record: Path,
    lang: str,
    *,
    entrance: str = "nightly",
) -> list[str]:
    """Send what is not a run, such as a night that did not run; returns a line for each that could not be sent.

    `kind` is one of `text.EVENTS`, or any other word; `text_fields` is what to say of it, a line each.
    """
    from nodegate.notices.news import of_event  # noqa: PLC0415
    from nodegate.report.json_file import utc  # noqa: PLC0415

    now = time.time()
    text = of_event(words(lang), kind, entrance, now, text_fields)
    notice = Notice("", entrance, "", utc(now), kind, text=text)
    return _each(targets, record, lambda _, __: (notice, None))


def _is_readable(record: Path) -> bool:
    from nodegate.past import database  # noqa: PLC0415 - sqlite

    try:
        with database.reading(record, wait_s=1.0) as base:
            base.execute("select count(*) from runs").fetchone()
    except UsageError:
        return False
    return True


def tell_line(line: str, targets: Sequence[Target], entrance: str) -> list[str]:
    """Send a line of a command that runs beside a job; it is not kept, for hours later it would be wrong.

    Returns a line for each notice that could not be sent.
    """
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    notice = Notice("", entrance, "", at, "finding", text=visible(line))
    return [str(failed) for target in targets if (failed := deliver(target, notice))]


def _of_run(report: Report, found: News, lang: str, entrance: str, folder: Path) -> Notice:
    from nodegate.notices.news import nothing_judged, of_run  # noqa: PLC0415
    from nodegate.report.json_file import utc  # noqa: PLC0415
    from nodegate.report.model import node_counts, worst_first  # noqa: PLC0415

    worst = "".join(node.verdict.value for node in worst_first(report.nodes)[:1])
    counts = {"nodes": len(report.nodes)}
    counts |= {verdict.value: count for verdict, count in node_counts(report).items()}
    counts |= {name: len(getattr(found, name)) for name in ("new", "still", "gone", "unseen")}
    return Notice(
        report.run.id,
        entrance,
        report.run.profile,
        utc(report.run.finished_epoch_s),
        NOTHING_JUDGED if nothing_judged(report) else INTERRUPTED if report.run.interrupted else worst,
        found.new[:MOST_ITEMS],
        found.still[:MOST_ITEMS],
        found.gone[:MOST_ITEMS],
        counts,
        of_run(words(lang), report, found, folder),
    )


def _each(targets: Sequence[Target], record: Path, make: Make) -> list[str]:
    from nodegate.notices.box import Box  # noqa: PLC0415

    return [line for target in targets for line in _one(target, Box(record.parent / FOLDER, target), make)]


def _one(target: Target, box: Box, make: Make) -> list[str]:
    """First what is waiting, then what is new; once something does not arrive, the rest waits with it."""
    failed = None
    try:
        with box.held():
            for file, waiting in box.waiting():
                failed = deliver(target, waiting)
                if failed and failed.keep:
                    break
                file.unlink(missing_ok=True)
            notice, known = make(target, box.known())
            if notice and not (failed and failed.keep):
                failed = deliver(target, notice)
            if notice and failed and failed.keep and box.keep(notice):
                known = None
            if known:
                box.remember(known)
    except OSError as broken:
        return [f"notices: {target.name}: cannot be kept beside the record: {broken.strerror or broken}"]
    return [f"{failed}; it is sent with the next notice" if failed.keep else str(failed)] if failed else []


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
    is_web, results = target.scheme in WEB, list[NotSent | None]()
    module = import_module(f"nodegate.notices.{'http' if is_web else target.scheme}")
    send = getattr(module, target.scheme if is_web else "send")
    limit_s = getattr(module, "LIMIT_S", limit_s)

    def attempt() -> None:
        try:
            send(target, notice, limit_s)
            results.append(None)
        except NotSent as said:
            results.append(said)
        except Exception as fault:  # noqa: BLE001 - no fault of a target, or of ours here, may end a run
            results.append(target.failed(f"an internal error ({type(fault).__name__})"))

    thread = threading.Thread(target=attempt, daemon=True, name=f"notice to {target.scheme}")
    thread.start()
    thread.join(limit_s + 1.0)
    return results[0] if results else target.failed(f"no answer within {limit_s:.0f} s")
