"""The guard before every change of a node's state in Slurm: observing, and a limit of how many are changed at once.

No other module changes it. A limit that is wrong, or a nodegate that is, finds all nodes unfit in the same minute: then
a few of each partition are drained, and of the others there is a line in the log. Slurm itself is the memory that all
nodes share: of a drain it keeps reason and time, of a resume the field Extra has a mark. It is asked only where
something is about to be changed, and without its answer nothing is.

Hooks that decide at the same moment do not see each other. So each looks again after its own change, when those of the
others are to be seen, and takes its own back if too many came before it, by time and then by name: all nodes see the
same order, so as many stay as may.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nodegate.hook import slurm
from nodegate.scheduler.programs import NoAnswer

WINDOW_S = 900.0
PERCENT = 5.0
# Slurm's times are whole seconds of one clock: when that second is over, no drain can come before one's own any more.
SETTLE_S = 1.2
# Marks of a resume have the nodes' own clocks, so a hook that was too slow to be seen by others takes its own back.
RESUME_SETTLE_S, RESUME_WITHIN_S = 5.0, 4.0
TRIES = 3
_NOT_KNOWN = float("inf")  # when
_MARK = f"{slurm.OURS} resumed "

DRAINED, RESUMED, GIVEN_BACK = "drained", "resumed", "given back"
OBSERVED, OPEN, LEFT, NOT_DONE = "observed", "breaker", "left alone", "not done"
Marks = Callable[[slurm.Node], "float | None"]


@dataclass(frozen=True)
class Rules:
    """What a site lets nodegate change: nothing (`observe`), else `percent` of each partition within 15 minutes."""

    observe: bool = False
    percent: float = PERCENT


@dataclass(frozen=True)
class Done:
    """What came of it: a code, the same in words, and whether the node is drained now.

    Where it is not, Slurm would drain it for a hook that fails, past this guard.
    """

    code: str
    words: str
    is_out: bool = False


def drain(name: str, reason: str, rules: Rules) -> Done:
    """Drain a node, unless others have it in hand or too many are drained."""
    try:
        found = _why_not_drained(name, rules)
    except NoAnswer as said:
        found = Done(NOT_DONE, f"not drained: {said}")
    if rules.observe:
        more = f"; but {found.words}" if found else ""
        return Done(OBSERVED, f"would be drained, mode observe (reason {reason}){more}", bool(found and found.is_out))
    if found:
        return found
    without = "Slurm shows none"
    with _to_its_end():
        try:
            slurm.drain(name, reason)
        except NoAnswer as said:  # it may be done all the same
            without = str(said)
        return _settled_drain(name, reason, rules, f"not drained: {without}")


def _why_not_drained(name: str, rules: Rules) -> Done | None:
    seen = slurm.nodes()
    node = slurm.one(seen, name)
    if node.is_drained:
        return Done(LEFT, "already drained" if node.is_ours else f"drained by others: {node.reason}", is_out=True)
    if node.not_in_service:
        return Done(LEFT, f"left alone: Slurm reports it as {node.not_in_service}")
    said = too_many(seen, node, _drained, time.time(), rules)
    return Done(OPEN, f"not drained: {said}") if said else None


def _settled_drain(name: str, reason: str, rules: Rules, without: str) -> Done:
    """Whether the node's own drain stays."""
    node, said = _looked_again(name, _drained, rules, SETTLE_S)
    if node and not node.is_drained:
        return Done(NOT_DONE, without)
    if node and node.reason != reason:
        return Done(LEFT, f"drained by others: {node.reason}", is_out=True)
    if said and (failed := _again(lambda: slurm.undrain(name))):
        return Done(DRAINED, f"drained; it was to be given back ({said}), but {failed}", is_out=True)
    return Done(GIVEN_BACK, f"drained and given back: {said}") if said else Done(DRAINED, "drained", is_out=True)


def resume(name: str, rules: Rules) -> Done | None:
    """Resume a node that nodegate drained, unless too many are being resumed; None where there is none to resume."""
    try:
        node = slurm.node(name)
        if not (node.is_drained and node.is_ours) or node.not_in_service:
            return None
        if rules.observe:
            return Done(OBSERVED, "would be resumed, mode observe")
        seen, looked_s = slurm.nodes(), time.monotonic()
        if node.extra and not node.extra.startswith(_MARK):
            return Done(NOT_DONE, "not resumed: Extra of this node in Slurm is in use, so resumes cannot be counted")
        if said := too_many(seen, slurm.one(seen, name), _resumed, time.time(), rules):
            return Done(OPEN, f"not resumed: {said}")
        slurm.undrain(name, extra=f"{_MARK}{time.time():.0f}")
    except NoAnswer as said:
        return Done(NOT_DONE, f"not resumed: {said}")
    return _settled_resume(name, node.reason, rules, too_late=time.monotonic() - looked_s > RESUME_WITHIN_S)


def _settled_resume(name: str, reason: str, rules: Rules, *, too_late: bool) -> Done:
    """Whether it stays resumed."""
    node, said = _looked_again(name, _resumed, rules, 0.0 if too_late else RESUME_SETTLE_S)
    said = said or ("Slurm took too long" if too_late else "")
    if node and node.is_drained:
        said = ""  # by others
    if said and (failed := _again(lambda: slurm.drain(name, reason))):
        return Done(RESUMED, f"resumed; it was to be drained again ({said}), but {failed}")
    return Done(GIVEN_BACK, f"resumed and drained again: {said}") if said else Done(RESUMED, f"resumed, was {reason}")


def _looked_again(name: str, mark: Marks, rules: Rules, after_s: float) -> tuple[slurm.Node | None, str]:
    """The node after its change, None without Slurm's answer; and why the change may not stay."""
    try:
        time.sleep(after_s)
        seen = slurm.nodes()
        node = slurm.one(seen, name)
    except NoAnswer as said:
        return None, str(said)
    return node, too_many(seen, node, mark, None, rules)


def too_many(seen: Iterable[slurm.Node], node: slurm.Node, mark: Marks, now_s: float | None, rules: Rules) -> str:
    """Why this node may not be changed as well, in words; empty if it may.

    Args:
        seen: all nodes of the cluster.
        node: the one.
        mark: when nodegate changed a node so; None if it did not, infinite if it did at a time that is not known.
        now_s: the time now, before a change; None after it: then those count that came before this one.
        rules: how many may be.
    """
    mine = mark(node) if now_s is None else None
    end_s = now_s if mine is None else mine
    begin_s = (time.time() if end_s is None or end_s == _NOT_KNOWN else end_s) - WINDOW_S
    total, used = Counter[str](), Counter[str]()
    for each in seen:
        at = mark(each) if each.name != node.name else None
        counts = at is not None and at > begin_s
        if at is not None and mine is not None and at != _NOT_KNOWN:
            counts = counts and (at, each.name) < (mine, node.name)
        total.update(each.partitions or ("",))
        used.update((each.partitions or ("",)) if counts else ())
    for partition in node.partitions or ("",):
        most = max(1, int(total[partition] * rules.percent / 100))
        if used[partition] >= most:
            where = f"partition {partition}" if partition else "the cluster"
            return f"{used[partition]} of {total[partition]} nodes of {where} within 15 minutes, {most} may be"
    return ""


def _drained(node: slurm.Node) -> float | None:
    """When nodegate drained a node."""
    if not (node.is_drained and node.is_ours):
        return None
    return _NOT_KNOWN if node.reason_epoch_s is None else node.reason_epoch_s


def _resumed(node: slurm.Node) -> float | None:
    """When nodegate resumed a node, by the mark that it left."""
    at = node.extra.removeprefix(_MARK)
    return float(at) if at != node.extra and at.isdecimal() and len(at) < 12 else None


@contextmanager
def _to_its_end() -> Iterator[None]:
    """A hook whose time is over between a drain and what follows gives it back, as if Slurm had not answered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise NoAnswer("the time of the hook is over")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _again(change: Callable[[], None]) -> str:
    """Take one's own change back; why it could not be, empty if it is."""
    for left in reversed(range(TRIES)):
        try:
            change()
        except NoAnswer as answer:  # noqa: PERF203 - each call takes longer than that
            if not left:
                return str(answer)
        else:
            break
    return ""
