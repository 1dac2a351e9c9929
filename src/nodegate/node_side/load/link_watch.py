"""What NVML reports on the PCIe link of one GPU while it copies: an idle GPU lowers its link, so only this shows it."""

import importlib
import time
from types import ModuleType
from typing import Dict, List

from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.copying import ALONE, AT_ONCE
from nodegate.node_side.load.place import answer_within
from nodegate.node_side.load.sampler import growth, spread
from nodegate.node_side.probe import child
from nodegate.node_side.probe.nvml_calls import Handle, ask
from nodegate.node_side.probe.nvml_readings import LINK_GEN, READINGS, confidential

INTERVAL_S = 0.05
QUANTITIES = {"link_gen": LINK_GEN, "link_width": READINGS["link_width"]}
_WHEN = {steps.ALONE: ALONE, steps.OUT: AT_ONCE, steps.IN: AT_ONCE}


def run(index: int, slot: int, turns: steps.Turns, answer_limit_s: float) -> Dict[str, object]:
    """Sample until the copies of this GPU have ended.

    Raises:
        reading.CannotRead: NVML does not start or does not know the GPU.
    """
    turns.say(turns.watcher(slot), steps.PREPARING)
    nvml = importlib.import_module("pynvml")
    answer_within(answer_limit_s)
    ask(nvml, "nvmlInit")
    handle = ask(nvml, "nvmlDeviceGetHandleByIndex", index)
    state = {"confidential": confidential(nvml), "virtualization": READINGS["virtualization_mode"](nvml, handle)}
    before = READINGS["pcie_replays"](nvml, handle)
    samples: Dict[str, List[Dict[str, int]]] = {ALONE: [], AT_ONCE: []}
    unread: Dict[str, object] = {}
    turns.say(turns.watcher(slot), steps.WAITING)
    while turns.step(slot) != steps.ENDED:
        when = _WHEN.get(turns.step(slot))
        if when:
            answer_within(answer_limit_s)
            samples[when].append(_sample(nvml, handle, unread))
        answer_within(0)
        time.sleep(INTERVAL_S)
    answer_within(answer_limit_s)
    after = READINGS["pcie_replays"](nvml, handle)
    answer_within(0)
    found: Dict[str, object] = {when: _spread(several) for when, several in samples.items()}
    return dict(found, **state, unread=unread, replays=growth(before, after))


def _sample(nvml: ModuleType, handle: Handle, unread: Dict[str, object]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for name, read in QUANTITIES.items():
        child.note("NVML " + name)
        value = read(nvml, handle)
        if isinstance(value, int):
            found[name] = value
        else:
            unread[name] = value
    return found


def _spread(samples: "List[Dict[str, int]]") -> Dict[str, object]:
    """{quantity: [lowest, median, highest]} and the number of samples."""
    values = {name: [each[name] for each in samples if name in each] for name in QUANTITIES}
    return dict({name: spread(several) for name, several in values.items() if several}, count=len(samples))
