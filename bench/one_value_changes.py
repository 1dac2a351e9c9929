"""What becomes of a healthy node of which one value is wrong: docs/one-value-changes.md.

Every value that the probe sends of a healthy 8 x H100 node (of parts of one kind, one) is replaced by each of ODD in
turn, and the node is judged by every check of the facts.

    PYTHONPATH=tests python bench/one_value_changes.py docs/one-value-changes.md
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from nodegate import suite
from nodegate.facts import FACTS
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nodegate.baseline.baseline import Baseline
    from nodegate.suite import Check

Place = tuple["str | int", ...]

MOST_WORDS = 6
PAGE = """# One-value changes

Written by `bench/one_value_changes.py`; do not edit. Each of {fields} fields of a healthy 8 x H100 node is
replaced by odd values in turn ({total:,} changes: no value, other types, negative numbers, all bits set, "not
supported"), and the node is judged by every check of the facts.

| the node is then | changes |
|---|---|
{head}
What stays accepted, by the reason. Without values in parentheses every odd value does.

| why | fields |
|---|---|
{table}"""
# Why a wrong value of a field keeps no node from being accepted, by the names of fields. The first that fits counts.
REASONS: tuple[tuple[str, str], ...] = (
    (
        (
            r"(system\.(hostname|boot_id|machine|os_release|kernel_version|dmi\..*|cpu_.*|login_user|pid1|cgroup)"
            r"|nvml\.(nvml|cuda_driver)_version|nvml\.library|software\.(nvcc|ofed|cuda.*|packages.*|nccl.*)"
            r"|infiniband\.\w+\.(hca_type|board_id|fw_ver|node_.*|sys_.*)|nvml\.gpus\.inforom_image|driver\.params)"
        ),
        "says what the node is: shown, compared over the fleet or with what was ordered, not judged on one node",
    ),
    (r"system\.(modules|sysctl)\..*|software\.tools\..*", "shown; a measurement says what it lacks"),
    (
        (
            r"infiniband\..*counters\..*|netdev\..*carrier_changes|nvml\.gpus\.(ecc\.(volatile|aggregate)_corrected"
            r"|ecc\.aggregate_dram_uncorrected|nvlinks\.crc)"
        ),
        "a counter of which only the growth under load is judged, or errors that were corrected",
    ),
    (
        (
            r"nvml\.gpus\.(sm_clock_mhz|memory_clock_mhz|power_mw|temperature_c|memory_temperature_c|energy_mj"
            r"|performance_state|utilization_percent|link_gen|link_width|violation_ns\.power)"
        ),
        "a value of the moment: what the idle GPU does says nothing of it",
    ),
    (r"nvml\.gpus\.link_.*", "PCIe's own files are judged"),
    (
        (
            r"nvml\.gpus\.(index|bus_id|minor|module_id|numa_node|pci_subsystem_id)|nvml\.gpus\.nvlinks\.(version|remote_type)"
            r"|pci\.(subsystem_\w+|numa_node|revision|power_state|parent)|infiniband\.\w+\.numa_node"
        ),
        "says where a part is; no check rests on it alone",
    ),
    (
        r"nvml\.gpus\.(temperature_s\w+|retired_\w+|recovery_action|fabric\.health_summary)\.\w+|.*\.detail|.*\.nvml",
        "why a reading is absent: any reason of absence is one",
    ),
    (r"nvml\.gpus\.(power_limit_default_mw|power_limit_range_mw)", "the platform gives the limit"),
    (r"nvml\.gpus\.gsp_mode", "the version of the firmware that runs says that it runs"),
    (
        r"nvml\.gpus\.(uuid|serial)|infiniband\.\w+\.ports\.1\.(netdev|lid|sm_lid|gids.*|gid_types.*)",
        "any text that no other part has is a name; consumer cards have no serial number",
    ),
    (r"netdev\..*", "the network device of an InfiniBand port: the port itself is judged"),
    (r"clock\..*", "one of three sources of the node's clock; each of the others is enough"),
    (r"limits\.self\..*", "jobs get the limits of slurmd, which are judged"),
    (r"limits\.slurmd", "without slurmd's limits those of the login are judged"),
    (r"mounts\.usage\./(scratch|mnt)\S*|mounts\..*read_only", "judged where the inventory names the mount"),
    (r"mounts\..*", "too little room is a warning or no fault; any larger number is room"),
    (r"jobs\..*", "asked before a measurement, for who uses the node"),
    (r"services\.show", "written anew from the units when the document of the made-up node is put together"),
    (r"driver\.(gpus|devices)\..*", "a second word on what PCIe and NVML say; judged where one of these is silent"),
    (r"environment\..*", "absent or without a setting of NCCL that is known to harm"),
    (
        r"pci\.(class|vendor|device|driver|config|acs|.*link.*)",
        "of a device on which no job rests",
    ),
    (r"pci\.aer_.*", "firmware may keep these counters for itself"),
    (r"kernel_log\..*", "where the log was read from, or a warning"),
    (
        r"nvml\.gpus\.(ecc\.aggregate_\w+|pcie_replays|nvlinks\.re\w+|violation_ns\.\w+)",
        "within the limit, or a warning",
    ),
    (r"nvml\.gpus\.\w+_app_\w+", "newer drivers have no application clocks; a default below the clock is none"),
    (
        r"nvml\.gpus\.(sram_threshold_exceeded|inforom_valid|nvlinks\.state|persistence_mode)|driver\.loaded",
        "1 is true and 0 is false; persistence mode off is a warning",
    ),
    (
        r"nvml\.gpus\.(event_reasons|fabric\.health_mask|temperature_margin_c|memory_used_bytes)",
        "within the limit, or a warning",
    ),
    (r"system\.(uptime_s|iommu_groups|cmdline|kernel_release)", "as other healthy nodes have it, or a warning"),
)
ODD: tuple[object, ...] = (
    None, "", "garbage", "N/A", "-1", "0", "999999", -1, 0, 1, 2, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 10**30, 1.5,
    True, [], {}, {"why": "not supported", "detail": ""}, {"why": "missing", "detail": ""},
    {"why": "failed", "detail": ""},
)  # fmt: skip
NVSWITCH, ETHERNET = "0x068000", "0x020000"  # PCI classes
NODE = Node("gpu01")
REJECTED, INCOMPLETE, WARNED, ACCEPTED = "rejected", "incomplete", "accepted with a warning", "accepted"
# Of these lists and objects the values of one entry are changed: by its place, or by what its name begins with.
ONE_OF: Mapping[str, object] = {"nvml.gpus": 3, "nvml.gpus.nvlinks": 7, "infiniband": "mlx5_1", "netdev": "ibs1"}
NOT_CHANGED = ("kernel_log.lines",)  # texts that every check of the log has its own tests for


def machine() -> Machine:
    """The healthy node."""
    return Machine.hgx_h100("gpu01")


@cache
def shown_devices() -> Mapping[int, str]:
    """The PCIe devices of which the values are changed, one of a kind: by place, what each is."""
    made = machine()
    rail, switch_port = made.nic_address(0), made.pci(made.gpu_address(0))["parent"]
    devices = made.sections["pci"]
    of_kind = {
        made.gpu_address(0): "gpu",
        rail: "rail",
        switch_port: "switch_port",
        next(each["address"] for each in devices if not each["parent"]): "root_port",
        next(each["address"] for each in devices if each["class"] == NVSWITCH): "nvswitch",
        next(each["address"] for each in devices if each["class"] == ETHERNET): "management",
    }
    return {place: of_kind[each["address"]] for place, each in enumerate(devices) if each["address"] in of_kind}


def places(value: object, where: Place = ()) -> Iterator[Place]:
    """Where the values are that are changed: of equal parts those of one."""
    name = field(where)
    if name in NOT_CHANGED:
        return
    if isinstance(value, dict):
        only = ONE_OF.get(name)
        only = only if isinstance(only, str) else None
        for key, each in value.items():
            if only is None or key == only:
                yield from places(each, (*where, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index in _shown(name, value):
            yield from places(value[index], (*where, index))
    else:
        yield where


def _shown(name: str, entries: list[Any]) -> list[int]:
    """The entries of a list that are changed: of PCIe one device of each kind."""
    if name == "pci":
        return sorted(shown_devices())
    only = ONE_OF.get(name, 0)
    return [only] if isinstance(only, int) and only < len(entries) else [0]


def field(where: Place) -> str:
    """The name of a value without the places in lists; of a PCIe device with its kind."""
    steps = [each for each in where if isinstance(each, str)]
    if where[:1] == ("pci",) and len(where) > 2:
        steps.insert(1, shown_devices()[int(where[1])])
    return ".".join(steps)


def changed(where: Place, value: object) -> Machine:
    """The node with one value changed."""
    made = machine()
    at: Any = made.sections
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = copy.deepcopy(value)
    return made


def reads(check: Check, section: str) -> bool:
    """Whether a check judges what the probe read, and this section of it; the limits rest on the GPUs that are seen."""
    asked = set(check.asks_for)
    if not asked <= {*FACTS, "baseline", "profile", "node", "verdicts"}:
        return False
    sections = {each for name in asked & FACTS.keys() for each in FACTS[name].sections}
    return section in sections or ("baseline" in asked and section in {"nvml", "pci"})


@cache
def healthy_baseline() -> Baseline:
    """The limits of the node, which no change outside its GPUs and PCIe devices concerns."""
    return baseline_of(facts_of(machine()), NODE)


def verdict(made: Machine, section: str) -> str:
    """What becomes of the node of which this section was changed; all other checks pass as before."""
    facts = facts_of(made)
    known: dict[str, object] = {"node": NODE, "profile": Profile.DELIVERY}
    if section not in {"nvml", "pci"}:
        known["baseline"] = healthy_baseline()

    def resolve(name: str) -> object:
        if name == "baseline" and name not in known:
            known[name] = baseline_of(facts, NODE)
        return known[name] if name in known else facts.get(name)

    verdicts = {judge(check, resolve, NODE.name).verdict for check in suite.checks() if reads(check, section)}
    if Verdict.FAIL in verdicts:
        return REJECTED
    if Verdict.ERROR in verdicts:
        return INCOMPLETE
    return WARNED if Verdict.WARN in verdicts else ACCEPTED


def tried() -> Iterator[tuple[str, object, str]]:
    """Each change with the field and what became of the node."""
    sections = machine().sections
    for where in places(sections):
        at: Any = sections
        for step in where:
            at = at[step]
        for odd in ODD:
            if json.dumps(odd) != json.dumps(at):
                yield field(where), odd, verdict(changed(where, odd), str(where[0]))


def reason(name: str) -> str:
    """Why an odd value of a field may stay accepted; "" where the table has no reason."""
    return next((why for pattern, why in REASONS if re.fullmatch(pattern, name)), "")


def page(outcomes: Iterable[tuple[str, object, str]]) -> str:
    """The page: how many changes end how, and the fields of which odd values stay accepted."""
    counts: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    kept: dict[str, list[object]] = defaultdict(list)
    for name, odd, outcome in outcomes:
        counts[outcome] += 1
        fields[name] += 1
        if outcome in (ACCEPTED, WARNED):
            kept[name].append(odd)
    head = "".join(f"| {outcome} | {counts[outcome]:,} |\n" for outcome in (REJECTED, INCOMPLETE, WARNED, ACCEPTED))
    rows: dict[str, list[str]] = defaultdict(list)
    for name, odd in kept.items():
        whole = len(odd) == fields[name]
        rows[reason(name) or "(no reason is known)"].append(f"`{name}`" if whole else f"`{name}` ({_some(odd)})")
    table = "".join(f"| {why} | {', '.join(names)} |\n" for why, names in rows.items())
    return PAGE.format(total=sum(counts.values()), fields=len(fields), head=head, table=table)


def _some(values: list[object]) -> str:
    """The values that stay accepted, the first few."""
    words = list(dict.fromkeys(_word(value) for value in values))
    return ", ".join(words[:MOST_WORDS]) + (f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else "")


def _word(value: object) -> str:
    return str(value["why"]) if isinstance(value, dict) and value else json.dumps(value)


def main() -> None:
    """Try all of them and write the page."""
    Path(sys.argv[1]).write_text(page(tried()), "utf-8")


if __name__ == "__main__":
    main()
