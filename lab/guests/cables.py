"""The cables of a guest's rails, pulled and put back as a technician does: the guest's own driver sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.guests.guest import Guest

_UNTIL = """for _ in $(seq 300); do
    grep -q {state} /sys/class/infiniband/rxe{rail}/ports/1/state && exit 0
    sleep 0.1
done
ip link show rail{rail}; rdma link; dmesg | tail -5; exit 1
"""


def pull(guest: Guest, rail: int) -> None:
    """Take a rail's cable out; comes back when its soft-RoCE device is down.

    Raises:
        RuntimeError: it does not go down.
    """
    guest.cable(f"rail{rail}", plugged=False)
    guest.run(_UNTIL.format(rail=rail, state="DOWN"))


def put_back(guest: Guest, rail: int) -> None:
    """Put a rail's cable in; comes back when its soft-RoCE device is active.

    Raises:
        RuntimeError: it does not come up.
    """
    guest.cable(f"rail{rail}", plugged=True)
    guest.run(_UNTIL.format(rail=rail, state="ACTIVE"))


def flap(guest: Guest, rail: int) -> None:
    """A loose cable: the link goes and comes back.

    Raises:
        RuntimeError: it does not.
    """
    pull(guest, rail)
    put_back(guest, rail)
