"""A pytest plugin for nodes that share a processor (`-p lab.guests.slow_probe`): the probe has eight times its time.

An emulated processor beside other tests is a hundred times slower than a node's: journalctl alone then takes as long
as the whole probe may. What is read, and what is said of it, is not changed.
"""

from __future__ import annotations

from functools import partial

from nodegate import node_program
from nodegate.probe import collect, program
from nodegate.run import visit

_TIMES = 8
_SECTIONS_S = 60.0
_BUDGET_S = 120.0
# Module of the payload -> what stands there, and what takes its place.
_CHANGES = {
    "commands": ("min(limit_s, child.remaining_s())", f"min({_TIMES} * limit_s, child.remaining_s())"),
    "mounts": ("USAGE_LIMIT_S = 2.0", f"USAGE_LIMIT_S = {_TIMES * 2.0}"),
    "main": ("BUDGET_S = 45.0", f"BUDGET_S = {_BUDGET_S}"),
}
_SECTIONS = (
    *("system", "pci", "driver", "nvml", "infiniband", "netdev", "services", "kernel_log"),
    *("limits", "mounts", "environment", "software", "clock", "jobs"),
)
_modules_of = node_program.modules_of


def _patient(package: str) -> dict[str, str]:
    modules = dict(_modules_of(package))
    if package == program.PACKAGE:
        for module, (old, new) in _CHANGES.items():
            if old not in modules[module]:
                raise RuntimeError(f"the probe's {module} has no {old!r} any more: see lab/guests/slow_probe.py")
            modules[module] = modules[module].replace(old, new)
    return modules


node_program.modules_of = _patient
collect.program = partial(program.program, limits_s=dict.fromkeys(_SECTIONS, _SECTIONS_S))
visit.FACTS_TIMEOUT_S = 300.0  # also for a guest that boots meanwhile, and says only then that it knows us no more
