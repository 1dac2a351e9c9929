"""Counters for tests: one machine before the load and after it, and what a check says of the difference."""

from collections.abc import Callable
from dataclasses import dataclass

from fleet.machine import EPOCH_S, Machine, facts_of
from support import cases
from support.judging import baseline_of

from nodegate.node import Node
from nodegate.subjects.counters import Counters

NODE = "gpu01"
LOAD_S = 600.0


@dataclass(frozen=True)
class CounterCase(cases.Case):
    """One machine, changed before the load (`before`) and by the load (`during`), and what one check must say."""

    during: Callable[[Machine], object] = lambda machine: None
    before: Callable[[Machine], object] = lambda machine: None
    machine: Callable[..., Machine] = Machine.hgx_h100
    seconds: float = LOAD_S


def counted(case):
    """The facts of the machine before the load, and after it."""
    first = case.machine(NODE)
    case.before(first)
    second = case.machine(NODE, epoch_s=EPOCH_S + case.seconds)
    case.before(second)
    case.during(second)
    return Counters(facts_of(first), facts_of(second))


def judged(case):
    """What the check says."""
    counters = counted(case)
    known = {"counters": counters, "baseline": baseline_of(counters.before, Node(NODE))}
    return cases.judged_with(case.check, counters.before, known)
