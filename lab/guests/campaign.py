"""Runs over guests: what is measured between them over their soft-RoCE devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.run import ROOT, Run

if TYPE_CHECKING:
    from lab.guests.guests import Guests

CHECKS = ROOT / "checks" / "test_rdma_bandwidth.py"
BASELINE = Path(__file__).with_name("baseline.yaml")
_PATIENCE = ("-p", "lab.guests.patience")


def campaign(lab: Guests, folder: Path, *arguments: str) -> Run:
    """`rdma_bandwidth` over all guests, started at once."""
    folder.mkdir(parents=True, exist_ok=True)
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(lab.known_hosts())
    inventory = lab.inventory(known_hosts)
    return Run(folder, inventory, *_PATIENCE, str(CHECKS), "--baseline", str(BASELINE), *arguments)
