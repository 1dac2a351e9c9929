"""Memory and copies of all GPUs of a node; one document on stdout.

The document is described in docs/reference/copies-document.md. It is sent as one line of text: WIRE, then the
compressed JSON in base64.
"""

import functools
import time
from typing import Any, Dict, List, Sequence, Tuple

from nodegate.node_side.load import burn, copying, cuda, link_watch, place
from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.buffers import Buffers
from nodegate.node_side.load.copying import (
    ALL,
    DEVICE_SHARE,
    HOST_SHARE,
    KERNEL_SHARE,
    KERNELS,
    NONE,
    PEER_SHARE,
    RING,
    Options,
)
from nodegate.node_side.load.place import answer_within
from nodegate.node_side.load.turns import Turns
from nodegate.node_side.probe import child, children, driver

SCHEMA = "nodegate.copies/1"
WIRE = b"nodegate.copies/1+zlib:"
_ROUND = 4096  # the kernels take whole blocks of 16 bytes
PEER_S, FEWEST_S = 0.3, 0.05  # of copies, for each pair
AROUND_S = 1.0  # what a pair takes in addition: clearing and comparing
MOST_FAILURES = 3
_SEED = 0x0C091E53
_PART_BYTES, _PARTS_OF_PAIRS = 1 << 20, 4 << 20

Entry = Dict[str, Any]
Pair = Tuple[int, int]  # NVML indices: from, to


def main(**options: Any) -> None:
    """Copy, then write the document."""
    children.adopt_orphans()
    driver.hold_open()
    document = copies(Options(**options))
    children.end_all()
    burn.send(WIRE, document)


def limit_s(options: Options, gpus: int) -> float:
    """How long it may take at most, even if every GPU hangs at every step."""
    pairs = {ALL: gpus * gpus, NONE: 0}.get(options.peers, gpus)
    own = burn.SURVEY_LIMIT_S + _limit_s(options, gpus)
    return own + _pairs_limit_s(options, gpus, pairs) if pairs else own


def copies(options: Options) -> Entry:
    """The document."""
    began = time.monotonic()
    options = options._replace(size=max(options.size // _ROUND, 1) * _ROUND)
    head, entries = burn.looked_at()
    document: Entry = {
        **head,
        "schema": SCHEMA,
        "bytes": options.size,
        "kernel_bytes": options.kernel_size,
        "pattern_s": options.pattern_s,
        "both_ways": options.both_ways,
        "gpus": [_identity(each) for each in entries],
        "peers": {"pairs": options.peers, "copies": []},
    }
    if not document["refused"]:
        _copy_each(document, options)
        _copy_between(document, options)
    document["seconds"] = round(time.monotonic() - began, 2)
    return document


def _identity(seen: Entry) -> Entry:
    own: Entry = {} if seen["error"] else {"place": {}, "copies": [], "data": [], "link": {}, "memory": {}}
    return dict(burn.identity(seen), **own)


def _copy_each(document: Entry, options: Options) -> None:
    """The copies that a GPU makes with the host and inside itself."""
    good = [each for each in document["gpus"] if not each["error"]]
    turns = Turns(len(good), _longest_s(options))
    limit = _limit_s(options, len(good))
    tasks: Dict[str, child.Task] = {}
    for slot, each in enumerate(good):
        copy = functools.partial(copying.run, slot, each["uuid"], each["pci"], options, turns)
        watch = functools.partial(link_watch.run, each["index"], slot, turns, options.answer_limit_s)
        for what, job in (("copies", copy), ("link", watch)):
            tasks["{} {}".format(what, each["index"])] = child.Task(job, limit, _PART_BYTES)
    outcomes = children.run(tasks)
    for each in good:
        _take(each, outcomes["copies {}".format(each["index"])], options)
        watched = outcomes["link {}".format(each["index"])]
        each["link"] = watched.value or {"error": str((watched.unknown or {}).get("detail", ""))}


def _take(entry: Entry, outcome: children.Outcome, options: Options) -> None:
    parts = [part for part in outcome.parts if isinstance(part, dict)]
    for part in parts:
        entry["place"] = part.get("place", entry["place"])
        entry["memory"] = part.get("memory", entry["memory"])
    entry["copies"] = [part["copy"] for part in parts if "copy" in part]
    entry["data"] = [part["data"] for part in parts if "data" in part]
    if outcome.unknown:
        limit = options.answer_limit_s if entry["copies"] else options.start_limit_s
        entry["error"] = str(outcome.unknown["detail"]).replace("ended by SIGALRM", f"no answer within {limit:g} s")
    elif isinstance(outcome.value, dict):
        entry["error"] = outcome.value["error"]


def _copy_between(document: Entry, options: Options) -> None:
    """The copies between GPUs that are good so far, one pair after the other: an entry for each pair, in any case.

    They are made in a process that sees all of them. A pair that fails or hangs may make it unusable: then a new one
    does the rest.
    """
    good = [(each["index"], each["uuid"], each["pci"]) for each in document["gpus"] if not each["error"]]
    left = pairs_of(options.peers, [index for index, _, _ in good])
    pair_s = _pair_s(options, len(good), len(left))
    until = time.monotonic() + _pairs_limit_s(options, len(good), len(left))
    done: List[Entry] = document["peers"]["copies"]
    failures = 0
    while left and failures < MOST_FAILURES and time.monotonic() < until:
        job = functools.partial(copy_between, options, pair_s, good, left)
        outcome = children.run({"": child.Task(job, until - time.monotonic(), _PARTS_OF_PAIRS)})[""]
        found = [part for part in outcome.parts if isinstance(part, dict) and "from" in part]
        left = left[len(found) :]
        done += found
        if left and outcome.unknown:
            why = str(outcome.unknown["detail"]).replace("ended by SIGALRM", "no answer in time")
            done.append(_pair_entry(left.pop(0), why, begun=bool(outcome.parts)))
        failures += 1
    why = "no time was left" if failures < MOST_FAILURES else f"{failures} pairs before it failed"
    done += [_pair_entry(pair, why) for pair in left]


def pairs_of(which: str, indices: "Sequence[int]") -> "List[Pair]":
    """All ordered pairs, or each GPU with the next one and the last with the first."""
    if which == NONE or len(indices) < 2:
        return []
    if which == RING:
        return list(zip(indices, [*indices[1:], indices[0]]))
    return [(one, other) for one in indices for other in indices if one != other]


def _pair_s(options: Options, gpus: int, pairs: int) -> float:
    """Seconds for each pair, if every GPU has its share for its pairs."""
    return max(min(PEER_S, PEER_SHARE * options.seconds * gpus / max(pairs, 1)), FEWEST_S)


def _pairs_limit_s(options: Options, gpus: int, pairs: int) -> float:
    return 2 * options.start_limit_s + pairs * (_pair_s(options, gpus, pairs) + AROUND_S) + 2 * options.answer_limit_s


def _longest_s(options: Options) -> Dict[int, float]:
    """How long a GPU may be at each step before the others stop waiting for it."""
    host_s, device_s = HOST_SHARE * options.seconds, DEVICE_SHARE * options.seconds
    one = host_s + options.answer_limit_s
    return {
        steps.PREPARING: options.start_limit_s,
        steps.ALONE: host_s + one + (one if options.both_ways else 0.0),
        steps.INSIDE: device_s
        + KERNELS * KERNEL_SHARE * options.seconds
        + options.pattern_s
        + 2 * options.answer_limit_s,
        steps.OUT: one,
        steps.IN: one,
    }


def _limit_s(options: Options, gpus: int) -> float:
    longest = _longest_s(options)
    once = (steps.PREPARING, steps.INSIDE, steps.OUT, steps.IN)
    return gpus * longest[steps.ALONE] + sum(longest[step] for step in once) + options.answer_limit_s


def copy_between(options: Options, pair_s: float, gpus: "Sequence[Any]", pairs: "Sequence[Pair]") -> None:
    """In a child: send an entry for each pair, up to the first that fails."""
    place.see_only([uuid for _, uuid, _ in gpus])
    answer_within(options.start_limit_s)
    api = cuda.Cuda()
    ready: Dict[int, Buffers] = {}
    failed: Dict[int, str] = {}
    for index, _, pci in gpus:
        answer_within(options.start_limit_s)
        try:
            ready[index] = Buffers(api, pci, options.size, options.answer_limit_s)
            ready[index].fill(_SEED)
        except cuda.CudaError as error:
            ready.pop(index, None)
            failed[index] = f"GPU {index}: {error}"
    answer_within(0)
    child.emit({"ready": len(ready)})
    for pair in pairs:
        broken = [failed[index] for index in pair if index not in ready]
        if broken:
            child.emit(_pair_entry(pair, broken[0]))
            continue
        try:
            child.emit(_between(ready[pair[0]], ready[pair[1]], pair, options, pair_s))
        except cuda.CudaError as error:
            child.emit(_pair_entry(pair, str(error), begun=True))
            return


def _between(source: Buffers, target: Buffers, pair: Pair, options: Options, pair_s: float) -> Entry:
    api = source.cuda
    answer_within(options.answer_limit_s)
    direct = bool(api.number("cuDeviceCanAccessPeer", source.device, target.device))
    for one, other in ((source, target), (target, source)) if direct else ():
        api.use(one.context)
        api.enable_peer(other.context)
    api.use(target.context)
    target.clear()
    api.use(source.context)
    ends = target.target, target.context, source.source, source.context
    # over the host if need be
    copy = functools.partial(api.call, "cuMemcpyPeerAsync", *ends, options.size, source.stream)
    found = source.timed(copy, pair_s)
    api.use(target.context)
    wrong, first = target.differences()
    return dict(_pair_entry(pair, "", begun=True), direct=direct, wrong_words=wrong, first_word=first, **found)


def _pair_entry(pair: Pair, error: str, *, begun: bool = False) -> Entry:
    return {"from": pair[0], "to": pair[1], "begun": begun, "error": error}
