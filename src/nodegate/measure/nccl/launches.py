"""Which launches of nccl-tests are made inside a node, with which settings, and what a node must have for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RING_SETTINGS: Mapping[str, str] = {"NCCL_ALGO": "Ring", "NCCL_NVLS_ENABLE": "0"}


@dataclass(frozen=True)
class Launch:
    """One launch: `what` names it in messages and evidence, `metric` is the limit key of its bandwidth."""

    what: str
    collective: str
    ring: bool = False

    @property
    def metric(self) -> str:
        """The limit key of its bus bandwidth, in GB/s."""
        return f"nccl.{self.what.replace(' ', '_')}_gb_per_s"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings in its environment.

        WARN makes NCCL print its version and what goes wrong. For the first launch INFO on its start: whether NVLS is
        available. More would fill the evidence.
        """
        if self.ring:
            return {"NCCL_DEBUG": "WARN", **RING_SETTINGS}
        if self.what == ALL_REDUCE:
            return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NVLS"}
        return {"NCCL_DEBUG": "WARN"}


ALL_REDUCE, RING = "all_reduce", "all_reduce ring"
LAUNCHES = (
    Launch(ALL_REDUCE, "all_reduce"),
    Launch(RING, "all_reduce", ring=True),
    Launch("all_gather", "all_gather"),
    Launch("reduce_scatter", "reduce_scatter"),
    Launch("alltoall", "alltoall"),
    Launch("sendrecv", "sendrecv"),
)
BY_WHAT: Mapping[str, Launch] = {launch.what: launch for launch in LAUNCHES}
# A collective without one of these says nothing new about its node, may hang until its time limit, and breaks a
# launch over several nodes for all of them.
RESTS_ON = (
    "gpu.on_bus",
    "gpu.lost",
    "gpu.bound",
    "gpu.count",
    "gpu.recovery_action",
    "software.driver_loaded",
    "software.driver_and_library",
    "fabric.manager",
    "fabric.state",
    "host.blocked_processes",
    "idle.processes",
)
