"""Copies from GPU to GPU, one pair after the other, in a process that sees all of them.

A pair that fails or hangs may make the process unusable: then a new one does the rest.
"""

import functools
import time
from typing import Dict, List, NamedTuple, Sequence, Tuple

from nodegate.node_side.load import cuda, place
from nodegate.node_side.load.buffers import Buffers
from nodegate.node_side.load.place import answer_within
from nodegate.node_side.probe import child, children

PEER_S, FEWEST_S = 0.3, 0.05  # of copies, for each pair
AROUND_S = 1.0  # what a pair takes in addition: clearing and comparing
MOST_FAILURES = 3
ALL, RING, NONE = "all", "ring", "none"
_SEED = 0x0C091E53
_PART_BYTES = 4 << 20

Entry = Dict[str, object]
Pair = Tuple[int, int]  # NVML indices: from, to


class Plan(NamedTuple):
    """What is copied between which GPUs, each (NVML index, UUID, PCI address)."""

    gpus: Sequence[Tuple[int, str, str]]
    size: int
    pair_s: float
    start_limit_s: float
    answer_limit_s: float


def pairs_of(which: str, indices: "Sequence[int]") -> "List[Pair]":
    """All ordered pairs, or each GPU with the next one and the last with the first."""
    if which == NONE or len(indices) < 2:
        return []
    if which == RING:
        return list(zip(indices, [*indices[1:], indices[0]]))
    return [(one, other) for one in indices for other in indices if one != other]


def seconds_of(whole_s: float, gpus: int, pairs: int) -> float:
    """Seconds for each pair, if every GPU has `whole_s` for its pairs."""
    return max(min(PEER_S, whole_s * gpus / max(pairs, 1)), FEWEST_S)


def limit_s(plan: Plan, pairs: int) -> float:
    """How long everything may take at most."""
    return 2 * plan.start_limit_s + pairs * (plan.pair_s + AROUND_S) + 2 * plan.answer_limit_s


def run(plan: Plan, pairs: "Sequence[Pair]") -> "List[Entry]":
    """An entry for each pair, in any case."""
    until = time.monotonic() + limit_s(plan, len(pairs))
    done: List[Entry] = []
    left, failures = list(pairs), 0
    while left and failures < MOST_FAILURES and time.monotonic() < until:
        job = functools.partial(copy_between, plan, left)
        outcome = children.run({"": child.Task(job, until - time.monotonic(), _PART_BYTES)})[""]
        found = [part for part in outcome.parts if isinstance(part, dict) and "from" in part]
        begun = bool(outcome.parts)
        left = left[len(found) :]
        done += found
        if left and outcome.unknown:
            why = str(outcome.unknown["detail"])
            done.append(_entry(left.pop(0), why.replace("ended by SIGALRM", "no answer in time"), begun=begun))
        failures += 1
    why = "no time was left" if failures < MOST_FAILURES else f"{failures} pairs before it failed"
    return done + [_entry(pair, why) for pair in left]


def copy_between(plan: Plan, pairs: "Sequence[Pair]") -> None:
    """In a child: send an entry for each pair, up to the first that fails."""
    place.see_only([uuid for _, uuid, _ in plan.gpus])
    answer_within(plan.start_limit_s)
    api = cuda.Cuda()
    ready: Dict[int, Buffers] = {}
    failed: Dict[int, str] = {}
    for index, _, pci in plan.gpus:
        answer_within(plan.start_limit_s)
        try:
            ready[index] = Buffers(api, pci, plan.size, plan.answer_limit_s)
            ready[index].fill(_SEED)
        except cuda.CudaError as error:
            ready.pop(index, None)
            failed[index] = f"GPU {index}: {error}"
    answer_within(0)
    child.emit({"ready": len(ready)})
    for pair in pairs:
        broken = [failed[index] for index in pair if index not in ready]
        if broken:
            child.emit(_entry(pair, broken[0]))
            continue
        try:
            child.emit(_between(ready[pair[0]], ready[pair[1]], pair, plan))
        except cuda.CudaError as error:
            child.emit(_entry(pair, str(error), begun=True))
            return


def _between(source: Buffers, target: Buffers, pair: Pair, plan: Plan) -> Entry:
    api = source.cuda
    answer_within(plan.answer_limit_s)
    direct = api.can_access(source.device, target.device)
    for one, other in ((source, target), (target, source)) if direct else ():
        api.use(one.context)
        api.enable_peer(other.context)
    api.use(target.context)
    target.clear()
    api.use(source.context)
    ends = (target.target, target.context), (source.source, source.context)
    found = source.timed(lambda: api.copy_peer(*ends, plan.size, source.stream), plan.pair_s)
    api.use(target.context)
    wrong, first = target.differences()
    return dict(_entry(pair, "", begun=True), direct=direct, wrong_words=wrong, first_word=first, **found)


def _entry(pair: Pair, error: str, *, begun: bool = False) -> Entry:
    return {"from": pair[0], "to": pair[1], "begun": begun, "error": error}
