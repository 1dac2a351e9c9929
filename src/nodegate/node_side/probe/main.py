"""The probe itself: all sections at once, each in a child process, one document on stdout.

The document is JSON; it is sent as one line of text, WIRE and then the compressed JSON in base64.
"""

import base64
import json
import os
import sys
import time
import zlib
from typing import Callable, Dict, Optional, Sequence, Tuple

from nodegate.node_side.probe import (
    child,
    children,
    commands,
    driver,
    files,
    host,
    kernel_log,
    mounts,
    nvml,
    pci,
    reading,
    software,
    system,
    upkeep,
)

SCHEMA = "nodegate.probe/1"
WIRE = b"nodegate.probe/1+zlib:"
DOCUMENT_LIMIT = 2_000_000  # bytes; the controller refuses more than 2 MiB
BUDGET_S = 45.0  # nvidia-smi may add its own time limit
LEAST_AT_ONCE = 4  # a few sections that hang must not hold up the rest
NVIDIA_SMI_LIMIT_S = 10.0
NVIDIA_SMI_BYTES = 512 << 10

Section = Dict[str, object]

# Section -> its reader and its time limit in seconds.
SECTIONS: Dict[str, Tuple[Callable[[], object], float]] = {
    "system": (system.read, 10.0),
    "cpus": (system.read_cpus, 10.0),
    "disks": (mounts.read_disks, 10.0),
    "pci": (pci.read, 10.0),
    "driver": (driver.read, 20.0),
    "nvml": (nvml.read, 20.0),
    "infiniband": (pci.read_infiniband, 10.0),
    "netdev": (pci.read_netdev, 10.0),
    "services": (host.read_services, 10.0),
    "kernel_log": (kernel_log.read, 10.0),
    "limits": (host.read_limits, 10.0),
    "mounts": (mounts.read, 10.0),
    "environment": (host.read_environment, 10.0),
    "software": (software.read, 10.0),
    "clock": (host.read_clock, 10.0),
    "jobs": (host.read_jobs, 10.0),
    "hooks": (host.read_hooks, 10.0),
    "upkeep": (upkeep.read, 10.0),
    "storage": (mounts.read_storage, 15.0),
}


def main(
    sections: Optional[Sequence[str]] = None,
    limits_s: Optional[Dict[str, float]] = None,
    programs: Sequence[str] = (),
    folders: Sequence[str] = (),
    *,
    lent: bool = False,
) -> None:
    """Write the document of the named sections (default: all) to stdout.

    `limits_s` replaces time limits; `programs` are looked for in addition to the usual ones, `folders` are those in
    which a file is written. `lent`: an engine's job has lent the node to the run, and starts the probe.
    """
    software.asked_for.extend(programs)
    mounts.asked_for.extend(folders)
    host.lent = lent
    epoch_s, started = time.time(), time.monotonic()
    children.adopt_orphans()
    if sections is None or "nvml" in sections:
        driver.hold_open()
    found = read_sections(list(SECTIONS) if sections is None else sections, limits_s or {})
    # Section `pci` reads the configuration space of the devices; section `upkeep` has a word of it.
    devices, upkept = (found.get(name, {}).get("data") for name in ("pci", "upkeep"))
    controls = {each["address"]: each.pop("control") for each in devices} if isinstance(devices, list) else {}
    if isinstance(upkept, dict):
        upkept["pcie"] = controls
    children.end_all()
    head = {"schema": SCHEMA, "python": sys.version.split()[0], "uid": os.getuid(), "epoch_s": epoch_s}
    if files.ROOT:  # for tests: what is reported is not the machine's own
        head["root"] = files.ROOT
    document = _encoded(dict(head, duration_s=round(time.monotonic() - started, 4)), found)
    sys.stdout.buffer.write(b"\n" + WIRE + base64.b64encode(zlib.compress(document, 6)) + b"\n")
    sys.stdout.buffer.flush()


def read_sections(names: Sequence[str], limits_s: Dict[str, float]) -> Dict[str, Section]:
    """The named sections, as many at once as the node has CPUs; nvidia-smi after them if NVML returned nothing."""
    chosen = {name: SECTIONS[name] for name in names if name in SECTIONS}
    tasks = {name: child.Task(read, limits_s.get(name, limit_s)) for name, (read, limit_s) in chosen.items()}
    at_once = max(LEAST_AT_ONCE, os.cpu_count() or 1)
    found = {name: _section(name, outcome) for name, outcome in children.run(tasks, BUDGET_S, at_once).items()}
    if "nvml" in found and "data" not in found["nvml"]:
        why = str(found["nvml"]["why"])
        if why in ("timeout", "hung"):  # nvidia-smi uses NVML
            not_started = reading.unknown(why, "not started: NVML, which it uses, did not answer")
            found["nvidia_smi"] = dict(not_started, duration_s=0.0)
        else:
            task = child.Task(_ask_nvidia_smi, limits_s.get("nvidia_smi", NVIDIA_SMI_LIMIT_S))
            found["nvidia_smi"] = _section("nvidia_smi", children.run({"": task})[""])
    return found


def _section(name: str, outcome: children.Outcome) -> Section:
    if name == "nvml":
        return nvml.section(outcome)
    duration_s = round(outcome.duration_s, 4)
    if outcome.unknown:
        return dict(outcome.unknown, duration_s=duration_s)
    return {"data": outcome.value, "duration_s": duration_s}


def _ask_nvidia_smi() -> object:
    output = commands.run(["nvidia-smi", "-q", "-x"], child.remaining_s(), NVIDIA_SMI_BYTES)
    return {"q": output.stdout or commands.failure("nvidia-smi", output), "exit_code": output.exit_code}


def _encoded(head: Dict[str, object], sections: Dict[str, Section]) -> bytes:
    """The document in UTF-8, largest sections left out until it is within the limit."""
    while True:
        text = json.dumps(dict(head, sections=sections), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        encoded = text.encode("utf-8", "replace")
        if len(encoded) <= DOCUMENT_LIMIT:
            return encoded
        largest = max(sections, key=lambda name: len(json.dumps(sections[name])))
        sections[largest] = dict(reading.unknown("failed", "left out: the document was too large"), duration_s=0.0)
