"""Write the demo fleet into an inventory folder: `python -m fleet.write ../inventory`, run in tests/."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.demo import HGX_NODES, ROCE_NODES, build
from fleet.load.recordings import recordings as recorded
from fleet.machine import Machine
from fleet.racks import racks
from nodegate.demo.verify import PlantedFault

INVENTORY_FILE = "demo.yaml"
FAULTS_FILE = "demo/faults.yaml"
RECORDINGS = "demo/recordings"
_HEAD = "# Written by `python -m fleet.write ../inventory`, run in tests/: change tests/fleet/ and write it again.\n"


def files() -> Mapping[str, str]:
    """Every file of the demo, by its path below the inventory folder, and its text."""
    fleet = build()
    recordings = {
        f"{RECORDINGS}/{node}/{name}.json": json.dumps(
            document, ensure_ascii=False, separators=(",", ":"), sort_keys=True
        )
        + "\n"
        for node, found in recorded(fleet.machines).items()
        for name, document in found.items()
    }
    return {INVENTORY_FILE: _inventory(fleet.machines), FAULTS_FILE: _faults(fleet.faults), **recordings}


def write(folder: Path) -> int:
    """Write every file of the demo below this folder; returns how many."""
    texts = files()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return len(texts)


def _inventory(machines: Sequence[Machine]) -> str:
    hgx = [machine for machine in machines if machine.name in HGX_NODES]
    roce = [machine for machine in machines if machine.name in ROCE_NODES]
    where = racks(machine.name for machine in machines)
    lines = [
        _HEAD + "# A fleet of recorded nodes: no GPU, no network. The planted faults are listed in demo/faults.yaml.",
        "all:",
        "  vars:",
        "    ansible_connection: replay",
        f"    nodegate_recordings: {RECORDINGS}",
        '    nodegate_mounts: [/scratch, "/mnt/data:ro"]',
        "    nodegate_require: [cuda, nccl, ib_write_bw]",
        "  children:",
        "    hgx:  # the platform is found from the hardware",
        "      vars:",
        "        nodegate_limits: {host.memory_gib: 2048}",
        "      hosts:",
        *_hosts(hgx, where),
        "    roce:",
        "      vars:",
        "        nodegate_gpus: 8  # how many cards a server holds is a property of the order",
        "        nodegate_rails: 4",
        "        nodegate_limits: {host.memory_gib: 1024}",
        "      hosts:",
        *_hosts(roce, where),
    ]
    return "\n".join(lines) + "\n"


def _hosts(machines: Sequence[Machine], where: Mapping[str, str]) -> list[str]:
    serials = [machine.sections["system"]["dmi"]["product_serial"] for machine in machines]
    return [
        f"        {machine.name}: {{nodegate_rack: {where[machine.name]}, nodegate_serial: {serial}}}"
        for machine, serial in zip(machines, serials, strict=True)
    ]


def _faults(faults: tuple[PlantedFault, ...]) -> str:
    lines = [_HEAD + "# What a run over the demo fleet must find, and nothing else. The check may be a pattern."]
    for fault in faults:
        subject = f", subject: {json.dumps(fault.subject)}" if fault.subject else ""
        place = f"node: {fault.node}, check: {json.dumps(fault.check)}, verdict: {fault.verdict.value}{subject}"
        why = f"failure_mode: {fault.failure_mode}, what: {json.dumps(fault.what)}"
        lines.append(f"- {{{place},\n   {why}}}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("../inventory")
    sys.stdout.write(f"{write(target)} files written below {target}\n")
