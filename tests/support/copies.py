"""Copies for tests: the document of docs/reference/copies-document.md, what it becomes, and what a check says of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.changes import changes
from fleet.load import copies as recorded
from fleet.load import plan
from fleet.machine import Machine
from support import cases
from support.attempts import attempts

from nodegate.measure.copies import result as copies_result
from nodegate.measure.copies.document import WIRE
from nodegate.records.program_run import ProgramRun

CHECK_FILE = Path(__file__).resolve().parents[2] / "checks" / "test_copies.py"
NODE = "gpu01"
ALONE, AT_ONCE = "alone", "at once"
RATES = {
    ("device_to_host", ALONE): 55.1,
    ("host_to_device", ALONE): 55.4,
    ("both_ways", ALONE): 94.0,
    ("device", ALONE): 1245.0,
    ("read", ALONE): 3060.0,
    ("copy", ALONE): 2980.0,
    ("triad", ALONE): 2990.0,
    ("device_to_host", AT_ONCE): 41.0,
    ("host_to_device", AT_ONCE): 42.0,
}
PEER = 376.0
LIMITS = """
  memory.device_gb_per_s: {value: 2490, unit: GB/s, direction: at least, tolerance: 0.06, peak: 3350, source: test,
    parameters: {path: ce, counted: both}}
  memory.tested_percent: {value: 90, unit: "%", direction: at least, source: test}
  derived.host_both_ways_percent: {value: 40, unit: "%", direction: at least, source: test}
  derived.host_copies_percent: {value: 60, unit: "%", direction: at least, source: test}
  derived.memory_kernels_percent: {value: 75, unit: "%", direction: at least, source: test}
  memory.host_to_device_gb_per_s: {value: 55.4, unit: GB/s, direction: at least, tolerance: 0.09, peak: 63,
    source: test, parameters: {path: ce}}
  memory.device_to_host_gb_per_s: {value: 55.1, unit: GB/s, direction: at least, tolerance: 0.09, peak: 63,
    source: test, parameters: {path: ce}}
  memory.peer_gb_per_s: {value: 376, unit: GB/s, direction: at least, tolerance: 0.08, peak: 450, source: test,
    parameters: {path: ce}}
"""
Document = dict[str, Any]


def document(machine):
    """Healthy copies of all GPUs of a machine, every pair included, at rates without noise."""
    found = recorded.document(machine)
    for gpu in found["gpus"]:
        for each in gpu["copies"]:
            each.update(_at(RATES[each["what"], each["when"]]))
    for each in found["peers"]["copies"]:
        each.update(_at(PEER))
    return found


def _at(gb_per_s):
    return dict.fromkeys(("gb_per_s", "lowest", "highest"), gb_per_s)


def of_gpu(index, **values):
    return lambda found: found["gpus"][index].update(values)


@changes
def rate(found, what, gb_per_s, *, when=ALONE, gpu=3):
    """Give a kind of copies of a GPU another rate."""
    for each in found["gpus"][gpu]["copies"]:
        if (each["what"], each["when"]) == (what, when):
            each["gb_per_s"] = gb_per_s


def memory(gpu=3, **values):
    return lambda found: found["gpus"][gpu]["memory"].update(values)


def of_link(gpu=3, **values):
    return lambda found: found["gpus"][gpu]["link"].update(values)


def link(gpu=3, **values):
    return lambda found: found["gpus"][gpu]["link"][ALONE].update(values)


@changes
def pair(found, source, target, **values):
    for each in found["peers"]["copies"]:
        if (each["from"], each["to"]) == (source, target):
            each.update(values)


@changes
def each_pair_of(found, gpu, **values):
    for each in found["peers"]["copies"]:
        if gpu in {each["from"], each["to"]}:
            each.update(values)


def every_pair(**values):
    return lambda found: [each.update(values) for each in found["peers"]["copies"]]


def together(*changes):
    return lambda found: [change(found) for change in changes]


def wire(found):
    """As the program prints it, after what a login says."""
    return f"Welcome to {NODE}\n{plan.wire(WIRE, found)}"


def ran(found):
    return ProgramRun(copies_result.OWN, ("python3", "-"), stdout=wire(found), exit_code=0, duration_s=95.0)


def ran_by_others(name, stderr=""):
    """A run of nvbandwidth, from a recording."""
    text = (CHECK_FILE.parents[1] / "tests/tools/recordings/nvbandwidth" / name).read_text("utf-8")
    return ProgramRun(copies_result.OTHER, ("nvbandwidth", "-j"), stdout=text, stderr=stderr, exit_code=0)


def copied(change=lambda found: None, *more):
    """The copies of a healthy HGX H100, with something changed."""
    found = document(Machine.hgx_h100(NODE))
    change(found)
    return copies_result.parse(attempts([[ran(found), *more]]))


@dataclass(frozen=True)
class CopiesCase(cases.DocumentCase):
    """Copies of one machine, and what one check must say of them, word for word."""

    limits: str = LIMITS


def judged(case):
    """What the check says."""
    tried = case.tried(document(Machine.hgx_h100(NODE)), ran)
    of_fleet = [copied(case.change).metrics, copied().metrics] if case.nodes > 1 else []
    peers, baseline = cases.beside(case.nodes, *of_fleet), cases.h100_with(case.limits)
    return case.said(gpu_copies=lambda: copies_result.parse(tried), peers=peers, baseline=baseline)
