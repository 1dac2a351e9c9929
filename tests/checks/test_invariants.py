"""What holds for every check of facts: unknown never passes, and nothing that a node sends breaks one."""

import pytest
from fleet.machine import Machine
from support.judging import judge_all

from nodegate import suite
from nodegate.facts import FACTS
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.part import NODE
from nodegate.records.verdict import Verdict

FINE = (Verdict.PASS, Verdict.SKIP, Verdict.NOT_JUDGED)
MACHINES = [Machine.hgx_h100, Machine.pcie_l40s]
EXPECTED = {"mounts": ["/mnt/data"], "require": ["cuda", "nccl"]}


def of_subjects(*subjects):
    return [check for check in suite.checks() if check.id.partition(".")[0] in subjects]


GPU_SIDE = of_subjects("gpu", "idle", "power", "clocks", "ecc", "gsp", "nvlink", "fabric")
NODE_SIDE = of_subjects("pcie", "rdma", "kernel_log", "host", "software", "platform", "drift")
OF_GPUS = [check for check in GPU_SIDE if "gpus" in check.asks_for]
READINGS = sorted(set(Machine.hgx_h100().sections["nvml"]["gpus"][0]) - {"index"})
FACTS_USED = sorted({name for check in NODE_SIDE for name in check.asks_for if name in FACTS})
COUNTERS = ("counters", "hw_counters", "gids", "gid_types")  # no check of a single reading looks at these
JUNK = ({"why": "failed", "detail": "EIO"}, None, "\ud800 junk", -1, [], {})


def judged(machine, checks, profile=Profile.DELIVERY):
    node = Node("gpu01", expected=EXPECTED, origin="hosts.yaml:3")
    return judge_all(machine, checks, profile=profile, node=node)


def gpu_side(machine):
    return judged(machine, GPU_SIDE)


@pytest.mark.parametrize("make", MACHINES)
@pytest.mark.parametrize("profile", list(Profile))
def test_a_healthy_machine_raises_nothing(make, profile):
    records = judged(make(), [*GPU_SIDE, *NODE_SIDE], profile)
    assert {name: record.message for name, record in records.items() if record.verdict not in FINE} == {}


@pytest.mark.parametrize("make", MACHINES)
def test_a_lost_gpu_passes_no_check_that_reads_gpus(make):
    machine = make()
    healthy = gpu_side(machine)
    machine.lose_gpu(3)
    records = gpu_side(machine)
    passed = [check.id for check in OF_GPUS if records[check.id].verdict in FINE and not _not_judged(healthy[check.id])]
    assert passed == []


def _not_judged(record):
    """The whole check does not apply or has no limit: the platform has no such thing."""
    whole = all(part == NODE for finding in record.findings for part in finding.parts)
    return whole and record.verdict in (Verdict.SKIP, Verdict.NOT_JUDGED)


def test_without_nvml_nothing_that_reads_gpus_is_judged():
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "hung", "cannot be ended")
    records = gpu_side(machine)
    assert {records[check.id].verdict for check in OF_GPUS} == {Verdict.ERROR}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("value", [{"why": "missing", "detail": ""}, "x"])
def test_no_reading_breaks_a_check(reading, value):
    machine = Machine.hgx_h100()
    machine.set_gpu(3, reading, value)
    broken = {name: record.message for name, record in gpu_side(machine).items() if "itself failed" in record.message}
    assert broken == {}


@pytest.mark.parametrize(
    "reading",
    [
        "compute_mode", "ecc", "ecc_mode", "event_reasons", "fabric", "gsp_firmware", "inforom_valid",
        "memory_clock_app_mhz", "memory_clock_max_mhz", "memory_used_bytes", "mig_mode", "nvlinks", "persistence_mode",
        "power_limit_enforced_mw", "power_limit_mw", "processes", "recovery_action", "remap_histogram",
        "remapped_rows", "retired_pages", "sm_clock_app_mhz", "sm_clock_max_mhz", "sram_threshold_exceeded",
        "temperature_margin_c", "violation_ns",
    ],
)  # fmt: skip
def test_a_reading_that_failed_is_an_error_somewhere(reading):
    machine = Machine.hgx_h100()
    machine.set_gpu(3, reading, {"why": "failed", "detail": "NVML 999"})
    assert Verdict.ERROR in {record.verdict for record in gpu_side(machine).values()}


@pytest.mark.parametrize("why", ["timeout", "denied", "hung", "failed"])
@pytest.mark.parametrize("fact", FACTS_USED)
def test_no_check_passes_without_a_fact_that_it_asks_for(fact, why):
    machine = Machine.hgx_h100()
    for section in FACTS[fact].sections:
        machine.section_fails(section, why, "planted")
    records = judged(machine, NODE_SIDE)
    passed = [
        check.id
        for check in NODE_SIDE
        if fact in check.asks_for and records[check.id].verdict in (Verdict.PASS, Verdict.WARN)
    ]
    assert passed == []


def leaves(value, path=()):
    """Every place in a section, of lists only the first entries."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, part in inner:
        if key not in COUNTERS:
            yield from leaves(part, (*path, key))


def put(holder, path, value):
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value


ASKED_BY_THE_MACHINE = {("kernel_log", ()), ("kernel_log", ("lines",))}  # it adds its own lines to them
SECTIONS = sorted({section for fact in FACTS_USED for section in FACTS[fact].sections} - {"nvidia_smi", "services"})


@pytest.mark.parametrize("section", SECTIONS)
def test_no_value_that_a_node_sends_breaks_a_check(section):
    broken = set()
    checks = [
        check
        for check in NODE_SIDE
        if any(section in FACTS[name].sections for name in FACTS_USED if name in check.asks_for)
    ]
    for number, path in enumerate(leaves(Machine.hgx_h100().sections[section])):
        if (section, path) in ASKED_BY_THE_MACHINE:
            continue
        machine = Machine.hgx_h100()
        put(machine.sections, (section, *path), JUNK[number % len(JUNK)])
        for record in judged(machine, checks).values():
            if "itself failed" in record.message:
                broken.add((path, record.message))
    assert broken == set()
