"""The demo fleet: sixteen recorded nodes of two platforms, twelve with faults, four healthy, traps on nine."""

from dataclasses import dataclass

from fleet.faults import FAULTS
from fleet.machine import Machine
from fleet.traps import TRAPS
from nodegate.demo.verify import PlantedFault

HGX_NODES = tuple(f"hgx{number:02d}" for number in range(1, 11))
ROCE_NODES = tuple(f"roce{number:02d}" for number in range(1, 7))


@dataclass(frozen=True)
class DemoFleet:
    """The machines of the demo and what a run must find on them."""

    machines: tuple[Machine, ...]
    faults: tuple[PlantedFault, ...]


def build() -> DemoFleet:
    """The fleet, the same in every run."""
    healthy = [Machine.hgx_h100(name, number) for number, name in enumerate(HGX_NODES, start=1)]
    healthy += [Machine.pcie_l40s(name, number) for number, name in enumerate(ROCE_NODES, start=1)]
    planted: list[PlantedFault] = []
    for machine in healthy:
        for lay in TRAPS.get(machine.name, ()):
            lay(machine)
        for plant in FAULTS.get(machine.name, ()):
            planted += plant(machine)
    return DemoFleet(tuple(healthy), tuple(planted))
