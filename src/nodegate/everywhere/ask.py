"""Which nodes are asked, and all of them at once. No lock is taken; what was started on a node ends with us."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TextIO, TypeVar

from nodegate.errors import CannotMeasure, UsageError
from nodegate.inventory import inventory
from nodegate.inventory.hostlist import expand, fold
from nodegate.node import Node
from nodegate.scheduler.jobs import Job, slurm_name
from nodegate.transport import Options, Session, connect

AT_ONCE = 64  # nodes
T = TypeVar("T")


@dataclass(frozen=True)
class Whom:
    """The nodes to ask, what the user should know of them, and those of the job that the inventory lacks."""

    nodes: Sequence[Node]
    notes: Sequence[str] = ()
    absent: Sequence[str] = ()


def whom(sources: Sequence[str], pattern: str, job: Job | None, stdin: TextIO | None = None) -> Whom:
    """The nodes of an inventory (values of --inventory), of a --nodes pattern, of a job; without an inventory by name.

    Raises:
        UsageError: the inventory is wrong, or no node is named.
    """
    on = job.nodes if job else ()
    if not sources:
        names = [name for name in expand(pattern) if not job or name in on] if pattern else on
        if not names:
            raise UsageError("no node is named", hint="give --inventory FILE, --job ID, or --nodes 'gpu[1-8]'")
        read = inventory.read([f"{','.join(names)},"])
        return Whom(read.nodes, read.notes)
    read = inventory.read(sources, stdin=stdin)
    nodes = read.select(pattern) if pattern else read.nodes
    if not job:
        return Whom(nodes, read.notes)
    nodes = tuple(node for node in nodes if slurm_name(node) in on)
    if not nodes:
        raise UsageError(f"job {job.id} is on {fold(on)}, and none of these is asked for", hint="leave --nodes out")
    absent = set(on) - {slurm_name(node) for node in nodes} if not pattern else ()
    return Whom(nodes, read.notes, sorted(absent))


def ask_all(
    nodes: Sequence[Node], options: Options, ask: Callable[[Session], T]
) -> list[tuple[Node, T | CannotMeasure]]:
    """What each node answers, or why it does not, in the order of the nodes.

    An exception here (Ctrl-C) ends what runs on the nodes before it goes on.
    """
    sessions: set[Session] = set()
    ended = threading.Event()

    def one(node: Node) -> T | CannotMeasure:
        session = None
        try:
            session = connect(node, options)
            sessions.add(session)
            return CannotMeasure("it was not asked", next_step="ask again") if ended.is_set() else ask(session)
        except CannotMeasure as said:
            return said
        except UsageError:
            raise
        except Exception as fault:  # noqa: BLE001 - one node's surprise must not hide what the others say
            what = f"nodegate itself failed ({type(fault).__name__}: {fault})"
            return CannotMeasure(what, next_step="report this as an error of nodegate")
        finally:
            if session is not None:
                session.close()
                sessions.discard(session)

    pool = ThreadPoolExecutor(max(1, min(AT_ONCE, len(nodes))))
    try:
        return list(zip(nodes, pool.map(one, nodes), strict=True))
    finally:
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)
        closing = [threading.Thread(target=session.close) for session in tuple(sessions)]
        for each in closing:  # at the same time: each takes until its node has ended what ran there
            each.start()
        for each in closing:
            each.join()
