"""Nodes as slurmctld keeps them, for tests of what the hooks do with them: real Slurm is in lab/tests/slurm."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from nodegate.hook import guard, slurm
from nodegate.scheduler.programs import NoAnswer

DRAIN = frozenset({"IDLE", "DRAIN"})


class SlurmNodes:
    """In place of scontrol. A reason has its time in whole seconds; `told` is what was asked for."""

    def __init__(self, patch, partitions):
        members = {partition: list(names) for partition, names in partitions.items()}
        self.held = {
            name: slurm.Node(frozenset({"IDLE"}), "", name, tuple(each for each in members if name in members[each]))
            for names in members.values()
            for name in names
        }
        self.told: list[str] = []
        self.silent = False
        self.shift_s = 0.0  # of the controller's clock
        self._alone = threading.Lock()
        for name in ("node", "nodes", "drain", "undrain"):
            patch.setattr(slurm, name, getattr(self, name))
        patch.setattr(guard, "SETTLE_S", 0.0)
        patch.setattr(guard, "RESUME_SETTLE_S", 0.0)

    def set(self, name, states=DRAIN, reason="", ago_s=0.0):
        at = int(time.time() + self.shift_s - ago_s)
        self.held[name] = replace(self.held[name], states=frozenset(states), reason=reason, reason_epoch_s=at)

    @property
    def ours(self):
        return [each.name for each in self.held.values() if each.is_drained and each.is_ours]

    def nodes(self):
        if self.silent:
            raise NoAnswer("scontrol did not answer within 5 s")
        with self._alone:
            return list(self.held.values())

    def node(self, name):
        return slurm.one(self.nodes(), name)

    def drain(self, name, reason):
        self.nodes()
        with self._alone:
            self.told.append(f"drain {name} {reason}")
            self.set(name, reason=reason)

    def undrain(self, name, extra=""):
        self.nodes()
        with self._alone:
            self.told.append(f"undrain {name}")
            node = self.held[name]
            self.held[name] = replace(node, states=frozenset({"IDLE"}), reason="", extra=extra or node.extra)
