"""Findings of the test of the whole memory by patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.measure.copies.findings import AGAIN, LOST_INSIDE, not_measured
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown

if TYPE_CHECKING:
    from nodegate.measure.copies.result import Copies
    from nodegate.measure.copies.tested import Tested
    from nodegate.records.finding import NumberLimit
    from nodegate.records.part import Part
    from nodegate.verdicts import Verdicts

QUANTITY = "wrong words"
_SHARE = "memory tested"
_TOLD = 2  # wrong words in a line
_FEW_BITS = 4
_FREE = "free the GPU's memory, then measure this node again"
_CORRUPT = "silent data corruption"


def judge_patterns(copies: Copies, least: NumberLimit, verdicts: Verdicts) -> None:
    """Every attempt on every GPU: a wrong word in one of them is a fault, an unfinished test no proof."""
    for several in copies.gpus.values():
        found = [gpu.memory for gpu in several if gpu.memory is not None]
        if not found:
            not_measured(several, "test of its memory", verdicts, otherwise="its memory was not tested")
        bad = [each for each in found if not isinstance(each.wrong_words, Unknown) and each.wrong_words]
        for each in bad:
            _wrong(several[0].part, each, verdicts)
        if found and not bad:
            _right(several[0].part, found, least, verdicts)


def _wrong(whose: Part, tested: Tested, verdicts: Verdicts) -> None:
    count = tested.wrong_words
    first = "; ".join(str(each) for each in tested.wrong[:_TOLD])
    message = f"{count} wrong word{'' if count == 1 else 's'} in its memory{_of_bits(tested)}: {first}: {_CORRUPT}"
    verdicts.found(
        Verdict.FAIL,
        part=whose,
        text=message,
        action=LOST_INSIDE,
        quantity=QUANTITY,
        observed=None if isinstance(count, Unknown) else count,
    )


def _of_bits(tested: Tested) -> str:
    """Which bits were wrong, if they are few: one line of data, or one cell."""
    if isinstance(tested.bits, Unknown):
        return ""
    places = [str(bit) for bit in range(32) if tested.bits >> bit & 1]
    return f" (bit{'' if len(places) == 1 else 's'} {', '.join(places)})" if 0 < len(places) <= _FEW_BITS else ""


def _right(whose: Part, found: list[Tested], least: NumberLimit, verdicts: Verdicts) -> None:
    """No wrong word: then it has to be all of the memory, and all patterns."""
    best = max(found, key=lambda each: each.passes if isinstance(each.passes, int) else -1)
    read = (best.bytes, best.total, best.passes, best.planned, best.wrong_words)
    unread = next((each for each in read if isinstance(each, Unknown)), None)
    if unread is not None:
        verdicts.unknown(part=whose, quantity=QUANTITY, reason=unread, action=AGAIN)
        return
    size, total, passes, planned, _ = (each for each in read if not isinstance(each, Unknown))
    share = round(100 * size / total, 1) if total else 0.0
    if passes < planned or not planned:
        reason = f"only {passes} of {planned} patterns were written and checked in time"
        verdicts.unknown(part=whose, quantity=QUANTITY, reason=reason, action=AGAIN)
    elif share < least.value:
        reason = f"{share:g} % of its memory could be tested, at least {least.value:g} % should ({least.source})"
        verdicts.unknown(part=whose, quantity=_SHARE, reason=reason, action=_FREE)
    else:
        gib = f"{size / 2**30:.4g} GiB, {share:g} % of its memory"
        verdicts.passed(part=whose, text=f"{passes} patterns written to {gib}, and read back correctly")
