"""Runs over healthy machines, one after the other on the same ones: whatever they complain of is a false alarm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.guests import gpu_node
from lab.guests.campaign import NIGHTLY, campaign
from lab.guests.full_guest import whole
from lab.guests.guests import Guests
from lab.nodes import gpus
from lab.nodes import runs as node_runs
from lab.nodes.image import image
from lab.nodes.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.run import Outcome


@dataclass(frozen=True)
class Quiet:
    """One run: how many verdicts it gave, what it complained of (warnings included), and how long it took."""

    verdicts: int
    alarms: tuple[str, ...]
    took_s: float


def nodes(runs: int, count: int, folder: Path) -> Iterator[Quiet]:
    """The whole suite without load, over nodes."""
    with Nodes(image(), count, folder, gpus.prepare) as lab:
        for number in range(runs):
            yield _quiet(node_runs.start(lab, folder / f"nodes{number}", lab.nodes).outcome())


def guests(runs: int, count: int, folder: Path) -> Iterator[Quiet]:
    """The whole suite without load, over guests that are GPU nodes with kernels of their own."""
    with Guests(count) as lab:
        for guest in lab.guests:
            gpu_node.prepare(guest)
        for number in range(runs):
            yield _quiet(whole(lab, folder / f"guests{number}", lab.guests).outcome())


def links(runs: int, count: int, folder: Path) -> Iterator[Quiet]:
    """`rdma_bandwidth` with real perftest, between guests."""
    with Guests(count) as lab:
        for number in range(runs):
            yield _quiet(campaign(lab, folder / f"links{number}", *NIGHTLY).outcome())


def _quiet(outcome: Outcome) -> Quiet:
    records = outcome.records if outcome.folder.exists() else []
    judged = [record for record in records if record.verdict.value != "skip"]
    alarms = [f"{record.node}: {record.check}: {record.message}" for record in judged if record.verdict.value != "pass"]
    if not judged:
        alarms.append(f"nothing was judged: {outcome.output[-500:]}")
    return Quiet(len(judged), tuple(alarms), outcome.took_s)
