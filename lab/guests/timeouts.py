"""A pytest plugin for runs over guests (`-p lab.guests.timeouts`): an emulated processor is a hundred times slower.

Nothing else of a run is changed. Transfers and rounds are fewer and smaller, so that a measurement has many of them
and does not end with half a gigabyte on its way; to start perftest takes a guest as long as a node's whole measurement.
A suspect is measured once more, not twice, or not at all; runs over bad cables leave the latencies out, and the probe
leaves out what need not be known of links.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodegate.measure import durations
from nodegate.measure.rdma import node_pair, perftest_runner, rdma_node
from nodegate.measure.rdma import result as rdma_result
from nodegate.measure.rdma import run as rdma
from nodegate.probe import collect
from nodegate.profile import Profile
from nodegate.run import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

SETUP, LINK, AGAIN, NO_LATENCY = "--lab-setup-s", "--lab-link-s", "--lab-again", "--lab-no-latency"
SECTIONS = "--lab-sections"
SIZE_BYTES, QUEUE_PAIRS = 64 << 10, 2
# An answer takes a busy guest longer than the 67 ms after which perftest has a NIC send again, and soft-RoCE of Linux
# 6.1 bears badly what is sent again for nothing (completion with error, status 9). 2^17 * 4 µs: half a second.
ANSWER = ("-u", "17")
# Of 128 transfers that are on their way (perftest's own choice), a guest still carries half a second after the end; and
# what is on its way over a slow rail must be through before the NIC sends it again.
ON_THE_WAY = ("-t", "2")
_words = node_pair.Test.words


def _patient(test: node_pair.Test, seconds: float, queue_pairs: int = 0) -> tuple[str, ...]:
    return (*_words(test, seconds, queue_pairs), *ANSWER, *(() if test in node_pair.LATENCIES else ON_THE_WAY))


def _read_only(chosen: list[str]) -> None:
    """Where the probe is to read everything, it reads these sections."""
    program = collect.program

    def shorter(*, sections: Sequence[str] | None = None, **limits: Any) -> bytes:
        return program(sections=sections or chosen, **limits)

    collect.program = shorter


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long perftest may take to start: a link that is cut hangs so long, in each test of each round."""
    parser.addoption(SETUP, type=float, default=12.0, metavar="SECONDS", help="time for perftest to start on a guest")
    parser.addoption(LINK, type=float, default=1.0, metavar="SECONDS", help="how long a link carries in a nightly run")
    parser.addoption(AGAIN, type=int, default=1, metavar="TIMES", help="how often a suspect is measured again")
    parser.addoption(NO_LATENCY, action="store_true", help="bandwidths alone, for a fault that they tell")
    parser.addoption(SECTIONS, metavar="NAMES", help="what the probe reads of a guest, by commas; default: all")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is measured."""
    node_pair.SIZE_BYTES, node_pair.QUEUE_PAIRS = SIZE_BYTES, QUEUE_PAIRS
    node_pair.LATENCY_ROUNDS = 6
    node_pair.Test.words = _patient  # type: ignore[method-assign, assignment]
    node_pair.SETUP_S = perftest_runner.LISTEN_S = config.getoption(SETUP)
    rdma_result.UNEVEN = 0.2  # guests take turns on few processors
    rdma_node.ASK_S = 60.0
    load.MOST_AMONG_NODES = 1 + config.getoption(AGAIN)
    if config.getoption(NO_LATENCY):
        rdma.LATENCIES = ()  # type: ignore[assignment, attr-defined]
    if chosen := config.getoption(SECTIONS):
        _read_only(chosen.split(","))
    usual = durations.OF_PROFILE[Profile.NIGHTLY]
    durations.OF_PROFILE[Profile.NIGHTLY] = replace(usual, link_s=config.getoption(LINK))
