"""Runs over guests: what is measured between them over their soft-RoCE devices."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.guests.timeouts import AGAIN, ANSWER, LINK, NO_LATENCY, ON_THE_WAY, QUEUE_PAIRS, SECTIONS, SETUP, SIZE_BYTES
from lab.run import ROOT, Run
from nodegate.errors import CannotMeasure
from nodegate.tools import perftest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.guests.guests import Guests
    from lab.run import Outcome

CHECKS = ROOT / "checks" / "test_rdma_bandwidth.py"
BASELINE = Path(__file__).with_name("baseline.yaml")
NIGHTLY = ("--profile", "nightly", "-k", "rdma_bandwidth")
OF_LINKS = "system,pci,infiniband,netdev,jobs"  # sections of the probe: what must be known of a guest's links
LINKS = (*NIGHTLY, SECTIONS, OF_LINKS)
ONCE = (AGAIN, "0")  # for a fault that a second look finds as the first one did
BRIEF = (*ONCE, NO_LATENCY)
BANDWIDTH_BYTES, LATENCY_BYTES = 500_000, 1_500
_PATIENCE = ("-p", "lab.guests.timeouts", "-p", "lab.slow_probe")
_LEAST_S, MOST_S = 14.0, 40.0
_TRIES = 3
_STRUCK_LINK_S = "2"  # long enough to be struck while it carries
_STARTS = 12  # perftest starts on both ends while the other guests' programs are at work
# Servers where there is no $client: those go on until theirs come.
_EACH_RAIL = f"""for rail in 0 1; do
    gid=$(cd /sys/class/infiniband/rxe$rail/ports/1/gids && grep -l ':ffff:0a4d:' {{0..15}} | head -n 1)
    words="-d rxe$rail -x $gid -p 1900$rail -s {SIZE_BYTES} -q {QUEUE_PAIRS} {" ".join(ANSWER + ON_THE_WAY)}"
    ib_write_bw $words -D 1 -F --report_gbits $client >/tmp/carried$rail 2>&1 </dev/null &
    [ "$client" ] || timeout 30 sh -c "until ss -Hltn sport = 1900$rail | grep -q .; do sleep 0.1; done"
done
if [ "$client" ]; then wait; fi
"""
UNTIL_THERE_S = 600.0  # on a machine with ten others at work


def campaign(lab: Guests, folder: Path, *arguments: str) -> Run:
    """`rdma_bandwidth` over all guests, started at once."""
    folder.mkdir(parents=True, exist_ok=True)
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(lab.known_hosts())
    inventory = lab.inventory(known_hosts)
    patience = (*_PATIENCE, SETUP, f"{setup_s(lab):.0f}")
    return Run(folder, inventory, *patience, str(CHECKS), "--baseline", str(BASELINE), *arguments)


def setup_s(lab: Guests) -> float:
    """How long perftest may take to start: seconds on an idle machine, many times that beside other work."""
    begun_s = time.monotonic()
    for guest in lab.guests:
        guest.run("ib_write_bw --version", check=False)
    return min(MOST_S, max(_LEAST_S, _STARTS * (time.monotonic() - begun_s)))


class Struck(NamedTuple):
    """What a run said, and when in it something happened, in seconds."""

    outcome: Outcome
    since_s: float


def struck(
    lab: Guests, folder: Path, strike: Callable[[], object], arguments: Sequence[str] = (*LINKS, *BRIEF)
) -> Struck:
    """A run over all guests, and what happens to them once ib_write_bw carries on rail1."""
    with campaign(lab, folder, *arguments, LINK, _STRUCK_LINK_S) as run:
        run.wait_for(at_work(lab, "rail1"), UNTIL_THERE_S)
        since_s = run.elapsed_s
        strike()
        return Struck(run.outcome(), since_s)


def carried_gbps(lab: Guests) -> float:
    """What the slower rail carries now, in Gb/s, from the second guest to the first, both rails at once.

    Raises:
        RuntimeError: perftest gave no number, several times: on a busy processor its clock may stand still for it.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(RuntimeError):
            return _carried_gbps(lab)
    return _carried_gbps(lab)


def _carried_gbps(lab: Guests) -> float:
    server, client = lab.guests[:2]
    server.run(f"client=; {_EACH_RAIL}")
    client.run(f"client={server.address}; {_EACH_RAIL}")
    return min(_average_gbps(client.run(f"cat /tmp/carried{rail}")) for rail in (0, 1))


def _average_gbps(printed: str) -> float:
    try:
        found = perftest.parse(printed)
    except CannotMeasure as why:
        raise RuntimeError(f"{why}: {printed}") from None
    if found.stalled or not found.bandwidth or not found.bandwidth[0].average_gbps:
        raise RuntimeError(f"it carried nothing: {printed}")
    return found.bandwidth[0].average_gbps


def at_work(lab: Guests, network: str, least_bytes: int = BANDWIDTH_BYTES) -> Callable[[], bool]:
    """Whether a rail has carried so much from now on: by default what tests of latency, which come first, do not."""
    ports = [lab.port(network, guest.number) for guest in lab.guests]
    before = sum(port.carried_bytes for port in ports)
    return lambda: sum(port.carried_bytes for port in ports) - before > least_bytes
