"""Section `cpus`: which CPUs and NUMA nodes there are, and which of them work."""

import re
from typing import Dict, Set, Tuple

from nodegate.node_side.probe import files, reading

_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"


def read() -> object:
    """The data of the section: the kernel's own lists ("0-111,224"), and the cores that are online."""
    found: Dict[str, object] = {name: files.text(f"{_CPUS}/{name}") for name in ("present", "online")}
    found["smt"] = files.text(_CPUS + "/smt/control")
    found["cores"] = _cores()
    found["numa_nodes"] = files.text(_NODES + "/online")
    return found


def _cores() -> object:
    """Cores that are online: one of them may be several CPUs."""
    cores: Set[Tuple[str, str]] = set()
    for name in files.entries(_CPUS):
        if re.match(r"cpu[0-9]+\Z", name):
            topology = f"{_CPUS}/{name}/topology"
            cores.add((files.plain(topology + "/physical_package_id"), files.plain(topology + "/core_id")))
    cores = {(package, core) for package, core in cores if core}
    return len(cores) or reading.unknown("missing", _CPUS + ": no core_id")
