"""A run's words written to a cluster's nodes; what was done on each of them, and what was not and why."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nodegate.engines.kubernetes import cluster, taints, verdict
from nodegate.engines.kubernetes.api import FORBIDDEN, NEW, STRATEGIC, THROTTLED, Api, Refused
from nodegate.engines.kubernetes.cluster import KubeNode
from nodegate.engines.kubernetes.verdict import Word
from nodegate.hook.guard import LEFT, NOT_DONE, OBSERVED, OPEN, Rules

WRITTEN, EVENT, TAINTED, LIFTED = "condition", "event", "tainted", "taint removed"
_TAINT = "taint"
_NO_USE = (0, THROTTLED)  # to go on asking: each further call would take as long
_EVENTS = "/api/v1/namespaces/default/events"


@dataclass(frozen=True)
class Done:
    """One thing that was done on a node, or was not: a code, and the same in words."""

    node: str
    code: str
    words: str


class Writer:
    """Writes to one cluster. A right that is missing, or a server that does not answer, is asked for once."""

    def __init__(self, api: Api, rules: Rules) -> None:
        self._api, self._rules = api, rules
        self._refused: dict[str, str] = {}  # by what was to be done
        self._open: dict[tuple[str, str], str] = {}  # the kinds of node of which no more are tainted, and why

    def write(self, words: Iterable[Word]) -> Iterator[Done]:
        """Write what changed, and of the rest a heartbeat; worst nodes first.

        Raises:
            Refused: the nodes cannot be read; then nothing was written.
        """
        known = {node.name: node for node in cluster.nodes(self._api)}
        for word in words:
            if (node := known.get(word.node)) is None:
                yield Done(word.node, LEFT, "the cluster has no node of this name")
            elif said := verdict.why_not(word, node):
                yield Done(word.node, LEFT, f"left alone: {said}")
            else:
                yield from self._condition(word, node)
                yield from self._taint(word, node)

    def _condition(self, word: Word, node: KubeNode) -> Iterator[Done]:
        if (body := verdict.condition(word, node, time.time())) is None:
            return
        path = f"/api/v1/nodes/{node.name}/status"
        yield from self._try(WRITTEN, word, lambda: bool(self._api.call("PATCH", path, body=body, kind=STRATEGIC)))
        if verdict.is_change(word, node) and WRITTEN not in self._refused:
            said = verdict.event(word, node)
            yield from self._try(EVENT, word, lambda: bool(self._api.call("POST", _EVENTS, body=said, kind=NEW)))

    def _taint(self, word: Word, node: KubeNode) -> Iterator[Done]:
        own = {each.key: each.value for each in node.taints if each.key in (taints.UNFIT, taints.NOT_PASSED)}
        if word.taint and own.get(taints.UNFIT) != word.taint:
            if self._rules.observe:
                yield Done(word.node, OBSERVED, f"would be tainted {taints.UNFIT}={word.taint}, mode observe")
            elif said := self._open.get(node.pool):
                yield Done(word.node, OPEN, said)
            else:
                set_taint = lambda: taints.unfit(self._api, node.name, word.taint, self._rules.percent)  # noqa: E731
                for done in self._try(TAINTED, word, set_taint):
                    if done.code == OPEN:
                        self._open[node.pool] = done.words
                    yield done
        elif word.has_passed and own:
            if self._rules.observe:
                yield Done(word.node, OBSERVED, f"would lose {', '.join(own)}, mode observe")
            else:
                yield from self._try(LIFTED, word, lambda: taints.lift(self._api, node.name))

    def _try(self, code: str, word: Word, change: Callable[[], bool | tuple[bool, str]]) -> Iterator[Done]:
        right = _TAINT if code in (TAINTED, LIFTED) else code
        if said := self._refused.get(right) or self._refused.get(""):
            yield Done(word.node, NOT_DONE, said)
            return
        try:
            found = change()
        except Refused as refused:
            said = f"{right}: not written: {refused}"
            if refused.status in (FORBIDDEN, *_NO_USE):
                self._refused[right if refused.status == FORBIDDEN else ""] = said
            yield Done(word.node, NOT_DONE, said)
            return
        changed, why = found if isinstance(found, tuple) else (found, "")
        if changed:
            value = f" {taints.UNFIT}={word.taint}" if code == TAINTED else f" {word.reason}" if code == WRITTEN else ""
            yield Done(word.node, code, f"{code}{value}")
        elif why:
            yield Done(word.node, OPEN, f"not tainted: {why}")
