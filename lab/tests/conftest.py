"""For all tests of the lab; Ctrl-C is not ignored in what they start, also in the background of a shell."""

from __future__ import annotations

import signal

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from lab.fault_table import told  # noqa: F401

SHARED = ("lab/tests/guests/pair/", "lab/tests/guests/trio/")  # folders whose tests share machines

signal.signal(signal.SIGINT, signal.default_int_handler)


class ByMachines(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Files are dealt out to the workers, and a folder whose tests share machines goes to one of them whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((folder for folder in SHARED if file.startswith(folder)), file)


def pytest_configure(config: pytest.Config) -> None:
    """A warning is an error."""
    config.addinivalue_line("filterwarnings", "error")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByMachines:
    """In the order of collection: what takes longest comes first."""
    config.option.loadscopereorder = False
    return ByMachines(config, log)
