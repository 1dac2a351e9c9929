"""Guests that are lent from one test to the next: faults are taken back, and guests that are not sound are replaced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from lab.guests.guest import NETWORKS
from lab.guests.guests import Guests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

T = TypeVar("T")
TRIES = 3
CLEAR_S = 90.0  # a guard that has lost its connection ends its own within a minute


class Lease:
    """Guests of these suites, booted when they are first needed."""

    def __init__(self, suites: Sequence[str]) -> None:
        self._suites = suites
        self._lab: Guests | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()

    def act(self, act: Callable[[Guests], T]) -> T:
        """Do something with sound guests, then mend them; where a kernel panicked meanwhile, once more.

        Soft-RoCE of Linux 6.12 may use a timer of a queue pair that is gone (rxe_sched_task) after it lost its peer.

        Raises:
            RuntimeError: the kernels panicked each time, or a program of perftest ran on after the test.
        """
        for _ in range(TRIES):
            lab = self.sound()
            try:
                found = act(lab)
                if not lab.panicked():
                    mend(lab)
                    return found
            except (AssertionError, OSError, RuntimeError):
                if not lab.panicked():
                    self.give_up()
                    raise
            self.give_up()
        raise RuntimeError(f"the guests' kernels panicked in {TRIES} of {TRIES} runs")

    def sound(self) -> Guests:
        """The guests, for who takes back his own faults or gives them up in the end."""
        if self._lab is not None and self._lab.panicked():
            self.give_up()
        if self._lab is None:
            lab = Guests(len(self._suites), self._suites)
            lab.__enter__()
            self._lab = lab
        return self._lab

    def give_up(self) -> None:
        """End them: they cannot be repaired. The next who asks gets others."""
        if self._lab is not None:
            self._lab.stop()
            self._lab = None


def mend(lab: Guests) -> None:
    """Good cables and a working sshd everywhere, and nothing of the last run that still works.

    Raises:
        RuntimeError: a guest does not answer, or a program of perftest runs on.
    """
    for guest in lab.guests:
        guest.thaw()  # first: QEMU answers nothing while it stands still
        for network in NETWORKS:
            lab.port(network, guest.number).mend()
            guest.cable(network, plugged=True)
    for guest in lab.guests:
        guest.run("systemctl start ssh; until rdma link | grep -c 'state ACTIVE' | grep -qx 2; do sleep 0.1; done")
    comes_clear(lab)


def comes_clear(lab: Guests) -> None:
    """Wait until no program of perftest runs on any guest: a guard that has lost its connection ends its own.

    Raises:
        RuntimeError: some still run.
    """
    end_s = time.monotonic() + CLEAR_S
    # pgrep takes no more than 15 characters, and the kernel has threads called ib_mad1 and ib_nl_sa_wq.
    while left := "".join(guest.run("pgrep -a '^ib_[rsw]' || true") for guest in lab.guests):
        if time.monotonic() > end_s:
            raise RuntimeError(f"perftest still runs: {left}")
        time.sleep(0.5)
