"""All nodes asked at once. No lock is taken, and what was started on a node ends with this process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from nodegate.errors import CannotMeasure
from nodegate.transport import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nodegate.node import Node
    from nodegate.transport import Options, Session

AT_ONCE = 64  # nodes
T = TypeVar("T")


def ask_all(
    nodes: Sequence[Node], options: Options, ask: Callable[[Session], T]
) -> list[tuple[Node, T | CannotMeasure]]:
    """What each node answers, or why it does not, in the order of the nodes.

    An exception here (Ctrl-C) ends what runs on the nodes before it goes on.
    """
    asking = _Asking(options, ask)
    pool = ThreadPoolExecutor(max(1, min(AT_ONCE, len(nodes))))
    try:
        return list(zip(nodes, pool.map(asking.one, nodes), strict=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        asking.end()


class _Asking:
    """The sessions that are open now."""

    def __init__(self, options: Options, ask: Callable[[Session], T]) -> None:
        self._options, self._ask = options, ask
        self._open: set[Session] = set()
        self._guard, self._ended = threading.Lock(), False

    def one(self, node: Node) -> T | CannotMeasure:
        """What one node answers, or why it does not."""
        session = None
        try:
            session = connect(node, self._options)
            with self._guard:
                self._open.add(session)
                ended = self._ended
            if ended:
                return CannotMeasure("it was not asked", next_step="ask again", whose=node.name)
            return self._ask(session)  # type: ignore[return-value]
        except CannotMeasure as said:
            return said
        except Exception as fault:  # noqa: BLE001 - one node's surprise must not hide what the others say
            what = f"nodegate itself failed ({type(fault).__name__}: {fault})"
            return CannotMeasure(what, next_step="report this as an error of nodegate", whose=node.name)
        finally:
            if session is not None:
                session.close()
                with self._guard:
                    self._open.discard(session)

    def end(self) -> None:
        """Close what is open, all at the same time: each takes until its node has ended what ran there."""
        with self._guard:
            self._ended, left = True, list(self._open)
        threads = [threading.Thread(target=session.close) for session in left]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
