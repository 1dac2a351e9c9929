"""A pytest plugin for runs over guests (`-p lab.guests.patience`): an emulated processor is a hundred times slower.

Nothing else of a run is changed. Transfers and rounds are fewer and smaller, so that a measurement has many of them
and does not end with half a gigabyte on its way; to start perftest takes a guest as long as a node's whole measurement.
A suspect is measured once more, not twice, or not at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nodegate.measure import length
from nodegate.measure.rdma import life as rdma_life
from nodegate.measure.rdma import meeting as rdma_meeting
from nodegate.measure.rdma import result as rdma_result
from nodegate.measure.rdma import station as rdma_station
from nodegate.profile import Profile
from nodegate.run import load

if TYPE_CHECKING:
    import pytest

SETUP, LINK, AGAIN = "--lab-setup-s", "--lab-link-s", "--lab-again"
# An answer takes a busy guest longer than the 67 ms after which perftest has a NIC send again, and soft-RoCE of Linux
# 6.1 bears badly what is sent again for nothing (completion with error, status 9). 2^17 * 4 µs: half a second.
_ANSWER = ("-u", "17")
_words = rdma_meeting.Test.words


def _patient(test: rdma_meeting.Test, seconds: float) -> tuple[str, ...]:
    return (*_words(test, seconds), *_ANSWER)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long perftest may take to start: a link that is cut hangs so long, in each test of each round."""
    parser.addoption(SETUP, type=float, default=12.0, metavar="SECONDS", help="time for perftest to start on a guest")
    parser.addoption(LINK, type=float, default=1.0, metavar="SECONDS", help="how long a link carries in a nightly run")
    parser.addoption(AGAIN, type=int, default=1, metavar="TIMES", help="how often a suspect is measured again")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is measured."""
    rdma_meeting.SIZE_BYTES = 64 << 10
    rdma_meeting.QUEUE_PAIRS = 2
    rdma_meeting.LATENCY_ROUNDS = 20
    rdma_meeting.Test.words = _patient  # type: ignore[method-assign, assignment]
    rdma_meeting.SETUP_S = config.getoption(SETUP)
    rdma_result.UNEVEN = 0.2  # guests take turns on few processors
    rdma_life.LISTEN_S = 30.0
    rdma_station.ASK_S = 60.0
    load.MEASURED_AGAIN = config.getoption(AGAIN)
    usual = length.OF_PROFILE[Profile.NIGHTLY]
    length.OF_PROFILE[Profile.NIGHTLY] = replace(usual, link_s=config.getoption(LINK))
