"""Runs of the whole suite over guests, without load: their GPUs cannot burn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from lab.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.guests.guest import Guest
    from lab.guests.guests import Guests

PLATFORM = "hgx-h100-8"  # what the made hardware is, but for the numbers below
# What a guest has by lab/guests/gpu_node.py; and a guest is minutes old when it is judged.
_MADE = "hardware that is made for a test"
LIMITS = {
    "gpu.count": {"value": 2, "deliberate": _MADE},
    "fabric.nvswitch_count": {"value": 1, "deliberate": _MADE},
    "rdma.rails": {"value": 2, "deliberate": _MADE},
    "rdma.rate_gbps": {"value": 2.5, "deliberate": _MADE},
    "pcie.aer_correctable_max": 3,
    "kernel.nic_flap_boot_grace_s": 1,
}


def whole(
    lab: Guests,
    folder: Path,
    guests: Sequence[Guest],
    *arguments: str,
    variables: Mapping[str, Mapping[str, str]] | None = None,
) -> Run:
    """One run over some guests, started at once. `variables`: the inventory's, by guest."""
    folder.mkdir(parents=True, exist_ok=True)
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(lab.known_hosts())
    inventory: dict[str, Any] = yaml.safe_load(lab.inventory(known_hosts))
    hosts = inventory["all"]["hosts"]
    names = {guest.name for guest in guests}
    inventory["all"]["vars"] |= {"nodegate_platform": PLATFORM, "nodegate_limits": LIMITS}
    inventory["all"]["hosts"] = {
        name: {**own, **(variables or {}).get(name, {})} for name, own in hosts.items() if name in names
    }
    chosen = ("-p", "lab.slow_probe", "--passive", "--tb=no")
    return Run(folder, yaml.safe_dump(inventory), *chosen, *arguments)
