"""Which errors can be of the job: not those of machines that carry none of its ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.triage.place import same_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.triage.events import Event
    from nodegate.triage.reading import Case


def of_the_job(candidates: list[Event], case: Case) -> list[Event]:
    """Without what other machines report, if the nodes of all ranks are known and the job has an error of its own."""
    names = case.found.names
    nodes = set(names.node_of_rank.values())
    if not names.world or not names.node_of_rank.keys() >= set(range(names.world)) or nodes & names.pods:
        return candidates
    own = [event for event in candidates if _can_be_of(nodes, event, names.home)]
    return own or candidates


def _can_be_of(nodes: set[str], event: Event, home: Mapping[str, str]) -> bool:
    machine = event.place.node or home.get(event.place.pod, event.place.pod)
    return not machine or any(same_node(machine, node) for node in nodes)
