"""A pytest plugin for nodes that share a processor (`-p lab.slow_probe`): the probe has several times its time.

An emulated processor beside other tests is a hundred times slower than a node's: journalctl alone then takes as long
as the whole probe may. What is read, and what is said of it, is not changed.
"""

from __future__ import annotations

from functools import partial

from lab.probe_limits import patient, replaced
from nodegate import node_program
from nodegate.node_side.probe.main import SECTIONS
from nodegate.probe import collect
from nodegate.run import campaign, node_facts

SECTION_S = 60.0
_modules_of = node_program.modules_of


def _patient(package: str) -> dict[str, str]:
    modules = _modules_of(package)
    if package != collect.PACKAGE:
        return dict(modules)
    return patient({**modules, "main": replaced(modules["main"], "BUDGET_S = 45.0", f"BUDGET_S = {2 * SECTION_S}")})


node_program.modules_of = _patient
collect.program = partial(collect.program, limits_s=dict.fromkeys(SECTIONS, SECTION_S))
node_facts.FACTS_TIMEOUT_S = 300.0  # also for a guest that boots meanwhile, and says only then that it knows us no more
campaign.PATIENCE_S = 300.0  # as many at once as was asked for, and no more
