"""Memory and copies of all GPUs of a node; one document on stdout.

The document is described in docs/reference/copies-document.md. It is sent as one line of text: WIRE, then the
compressed JSON in base64.
"""

import functools
import time
from typing import Any, Dict, List, NamedTuple

from nodegate.node_side.load import burn, copying, link_watch, peers, told
from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.turns import Turns
from nodegate.node_side.probe import child, children, driver

SCHEMA = "nodegate.copies/1"
WIRE = b"nodegate.copies/1+zlib:"
HOST_SHARE, DEVICE_SHARE, PEER_SHARE = 0.1, 0.1, 0.5  # of a GPU's seconds: each host copy (four), inside, its pairs
BOTH_SHARE = 0.05  # in addition: out and in at the same time
KERNEL_SHARE, KERNELS = 0.05, 3  # in addition: each kernel that reads and writes its memory
_ROUND = 4096  # the kernels take whole blocks of 16 bytes
_PART_BYTES = 1 << 20

Entry = Dict[str, Any]


class Options(NamedTuple):
    """How the copies are done; docs/reference/copies-document.md."""

    seconds: float
    size: int = 512 << 20
    kernel_size: int = 4 << 30
    pattern_s: float = 0.0
    both_ways: bool = False
    peers: str = peers.ALL
    start_limit_s: float = 60.0
    answer_limit_s: float = 20.0


def main(**options: Any) -> None:
    """Copy, then write the document."""
    children.adopt_orphans()
    driver.hold_open()
    document = copies(Options(**options))
    children.end_all()
    told.send(WIRE, document)


def limit_s(options: Options, gpus: int) -> float:
    """How long it may take at most, even if every GPU hangs at every step."""
    pairs = gpus * gpus if options.peers == peers.ALL else gpus
    own = burn.SURVEY_LIMIT_S + _limit_s(options, gpus)
    return own + peers.limit_s(_plan(options, [], pairs, gpus), pairs) if pairs and options.peers != peers.NONE else own


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
        index, host_s, device_s = each["index"], HOST_SHARE * options.seconds, DEVICE_SHARE * options.seconds
        limits = options.start_limit_s, options.answer_limit_s
        both_s = BOTH_SHARE * options.seconds if options.both_ways else 0.0
        kernels = KERNEL_SHARE * options.seconds, options.kernel_size, options.pattern_s, both_s
        job = copying.Job(slot, each["uuid"], each["pci"], options.size, host_s, device_s, *kernels, *limits)
        tasks[f"copies {index}"] = child.Task(functools.partial(copying.run, job, turns), limit, _PART_BYTES)
        watch = functools.partial(link_watch.run, index, slot, turns, options.answer_limit_s)
        tasks[f"link {index}"] = child.Task(watch, limit, _PART_BYTES)
    outcomes = children.run(tasks)
    for each in good:
        _take(each, outcomes["copies {}".format(each["index"])], options)
        watched = outcomes["link {}".format(each["index"])]
        each["link"] = watched.value or {"error": str((watched.unknown or {}).get("detail", ""))}


def _take(entry: Entry, outcome: children.Outcome, options: Options) -> None:
    """The entry from the process of a GPU."""
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
    """The copies between GPUs that are good so far."""
    good = [(each["index"], each["uuid"], each["pci"]) for each in document["gpus"] if not each["error"]]
    pairs = peers.pairs_of(options.peers, [index for index, _, _ in good])
    if pairs:
        document["peers"]["copies"] = peers.run(_plan(options, good, len(pairs), len(good)), pairs)


def _plan(options: Options, good: "List[Any]", pairs: int, gpus: int) -> peers.Plan:
    pair_s = peers.seconds_of(PEER_SHARE * options.seconds, gpus, pairs)
    return peers.Plan(good, options.size, pair_s, options.start_limit_s, options.answer_limit_s)


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
