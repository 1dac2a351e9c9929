"""What was measured on a made-up machine under load: what its programs print, through the real parsers."""

from fleet.load.after import document_after
from fleet.load.recordings import MODULES
from fleet.machine import Machine, facts_of

from nodegate.errors import NotJudged
from nodegate.facts import NodeFacts
from nodegate.measure.registry import COUNTERS, measurement
from nodegate.probe.document import document_of
from nodegate.subjects.counters import Counters

_RECORDED = {module.NAME: module.recorded for module in MODULES}
_RAILS_OF_HGX = 8


def measured_of(machine, name):
    """A measured fact of a machine, which has two good neighbours where it needs partners.

    Raises:
        CannotMeasure: it gave nothing.
        NotJudged: it does not apply to this machine, or no made-up machine gives it yet.
    """
    if name == COUNTERS:
        return Counters(facts_of(machine), facts_after(machine))
    if name in machine.load.refused:
        raise machine.load.refused[name]
    if name not in _RECORDED:
        raise NotJudged(f"no made-up machine gives {name}")
    wanted = measurement(name)
    why_not = wanted.applies(facts_of(machine))
    if why_not is not None:
        raise NotJudged(f"{name} is not measured: {why_not.reason}")
    return wanted.parse(_RECORDED[name]([machine, *_neighbours(machine)])[machine.name])


def facts_after(machine):
    """The machine's facts after the load."""
    document = document_after(machine)
    return NodeFacts(document_of(document, received_epoch_s=document["epoch_s"] + 0.33, round_trip_s=0.35))


def _neighbours(machine):
    make = Machine.hgx_h100 if len(machine.nic_addresses) == _RAILS_OF_HGX else Machine.pcie_l40s
    return [make(f"neighbour{number}", 90 + number) for number in (1, 2)]
