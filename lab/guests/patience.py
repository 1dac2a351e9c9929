"""A pytest plugin for runs over guests (`-p lab.guests.patience`): an emulated processor is a hundred times slower.

Nothing else of a run is changed. Transfers and rounds are fewer and smaller, so that a measurement has many of them
and does not end with half a gigabyte on its way; to start perftest takes a guest as long as a node's whole measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.measure.rdma import life as rdma_life
from nodegate.measure.rdma import meeting as rdma_meeting
from nodegate.measure.rdma import result as rdma_result
from nodegate.measure.rdma import station as rdma_station

if TYPE_CHECKING:
    import pytest

OPTION = "--lab-setup-s"
# An answer takes a busy guest longer than the 67 ms after which perftest has a NIC send again, and soft-RoCE of Linux
# 6.1 bears badly what is sent again for nothing (completion with error, status 9). 2^17 * 4 µs: half a second.
_ANSWER = ("-u", "17")
_words = rdma_meeting.Test.words


def _patient(test: rdma_meeting.Test, seconds: float) -> tuple[str, ...]:
    return (*_words(test, seconds), *_ANSWER)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long perftest may take to start: a link that is cut hangs so long, in each test of each round."""
    parser.addoption(OPTION, type=float, default=12.0, metavar="SECONDS", help="time for perftest to start on a guest")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is measured."""
    rdma_meeting.SIZE_BYTES = 64 << 10
    rdma_meeting.QUEUE_PAIRS = 2
    rdma_meeting.LATENCY_ROUNDS = 50
    rdma_meeting.Test.words = _patient  # type: ignore[method-assign, assignment]
    rdma_meeting.SETUP_S = config.getoption(OPTION)
    rdma_result.UNEVEN = 0.2  # guests take turns on few processors
    rdma_life.LISTEN_S = 30.0
    rdma_station.ASK_S = 60.0
