"""What becomes of a healthy node of which one value is wrong: docs/evidence/one-value-changes.md.

Every value that the probe sends of a healthy 8 x H100 node (of parts of one kind, one) is replaced by each of ODD in
turn, and the node is judged by every check of the facts.

    PYTHONPATH=tests python bench/one_value_changes.py docs/evidence/one-value-changes.md [SHARE]

Of a SHARE below 1 the same ones are tried each time.
"""

from __future__ import annotations

import copy
import json
import random
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fleet.machine import Machine, facts_of
from support.judging import baseline_of

from nodegate import suite
from nodegate.facts import FACTS
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nodegate.baseline.baseline import Baseline
    from nodegate.suite import Check

Place = tuple["str | int", ...]
Case = TypeVar("Case")

MOST_WORDS = 6
PAGE = """# One-value changes

Written by `bench/one_value_changes.py`; do not edit. Each of {fields} values of a healthy node of
HGX H100 is replaced by odd ones in turn ({total:,} changes: no value, other types, negative numbers,
all bits set, "not supported"), and the node is judged by every check of the facts, without load.
{share}
| the node is then | changes |
|---|---|
{head}
## What stays accepted

By the reason why it may. Without values in parentheses every odd value does.

| why | values |
|---|---|
{kept}
## What stays accepted with a warning

{warned}
"""
# Why a wrong value of a field keeps no node from being accepted, by the names of fields. The first that fits counts.
REASONS: tuple[tuple[str, str], ...] = (
    (
        r"upkeep\.(arrays\.\w+\.(level|raid_disks|sync_action|degraded)|bonds\.\w+\..*|nvme\.\w+\.(model|alarm))",
        "which kind it is: a RAID 0 counts no members, a bond without LACP has no partner, a drive may have no alarm",
    ),
    (
        r"upkeep\.(governors|preferences|dimms|huge_pages|idle|tuned|numa_balancing|modules|keys|pcie|memory_errors)\b.*|upkeep",
        "held to the order where it is demanded, else compared over the fleet; none is read in a virtual machine",
    ),
    (
        (
            r"system\.(os_release|cpu_model|cpu_count|cpu_sockets|kernel_release|dmi\.(product_\w+|bios_version|bios_date))"
            r"|cpus\.(cores|numa_nodes)|nvml\.(cuda_driver_version|confidential|gpus\.(inforom_image|virtualization_mode))"
            r"|infiniband\.\w+\.hca_type"
            r"|software\.(cuda\..*|ofed|nccl\.path)|disks\..*"
        ),
        "says what the node is: any value may be right; compared over the fleet and with what was ordered",
    ),
    (r"system\.pid_namespace", "a container may have no network device: an empty list without it is said as missing"),
    (r"system\.(hostname|boot_id)", "names the machine: compared over the run, before and after the load"),
    (
        (
            r"nvml\.library|software\.(nvcc|packages\..*)"
            r"|nvml\.gpus\.(module_id|power_limit_range_mw|power_limit_default_mw"
            r"|ecc\.aggregate_dram_uncorrected|nvlinks\.remote_type)"
            r"|infiniband\.\w+\.(node_guid|ports\.1\.sm_lid)|netdev\.\w+\.carrier|kernel_log\.(source|tried)"
        ),
        "says nothing of health by itself: for a support case, and for a person who compares two nodes",
    ),
    (r"nvml\.gpus\.memory_temperature_limit_c", "a board that names none is held to gpu.memory_temperature_max_c"),
    (
        r"pci\.\w+\.revision",
        "says which revision it is; of a device off the bus all of its configuration reads ff, which is judged",
    ),
    (
        r"system\.modules\..*|software\.tools\..*",
        "judged where the inventory requires it, or by what does not work without it",
    ),
    (
        r"nvml\.gpus\.(sm_clock_mhz|power_mw|utilization_percent|link_width|(memory_)?temperature_c)",
        "a value of the moment on an idle GPU; heat is judged by the margin to the slowdown, and all of it under load",
    ),
    (r"nvml\.gpus\.link_(width|gen)_max", "the kernel's own files of the link are judged"),
    (
        (
            r"infiniband\..*counters\..*|netdev\..*carrier_changes|nvml\.gpus\.nvlinks\.crc"
            r"|nvml\.gpus\.nvlink5\.(malformed_packets|buffer_overruns|receive_errors|link_integrity|discards)"
        ),
        "a total since boot proves nothing: its growth under load is judged, and an error if it cannot be read then",
    ),
    (
        r"nvml\.gpus\.nvlinks\.(replay|recovery)",
        "a counter at its end counts no more; which link reports none is compared with the other links",
    ),
    (
        r"nvml\.gpus\.index|pci\.\w+\.numa_node",
        "says where a part is; the PCI address is what names a part",
    ),
    (
        r"pci\.(gpu|rail|nvswitch|root_port|switch_port)\.(parent|driver)",
        "none is right at the root, or for what has none; a GPU without its driver fails by NVML, a rail by RDMA",
    ),
    (r"pci\.(gpu|rail|nvswitch|root_port|management)\.acs", "not between a GPU and a NIC below one PCIe switch"),
    (r"pci\.nvswitch\.\w+_link_\w+", "NVSwitches carry no data over PCIe; they are attached by two lanes by design"),
    (
        r"pci\.(root_port|switch_port)\.(\w+_link_\w+|config)",
        "a bridge that states no link of its own, as in virtual machines; what is below it is judged",
    ),
    (r"pci\.(gpu|rail|nvswitch)\.config", "any text that is not all ff is an answer"),
    (
        r"pci\.(rail|nvswitch)\.(class|vendor|device)",
        "another device: one rail or NVSwitch less, which is judged where the platform or the order says how many",
    ),
    (
        r"pci\.(root_port|switch_port)\.(class|vendor|device)",
        "a bridge less, or another one: what is below it is judged",
    ),
    (r"pci\.switch_port\.acs", "a bridge that redirects nothing, or cannot"),
    (r"system\.dmi\.sys_vendor", "any name but those of virtual machines is that of a server"),
    (r"pci\.management\..*", "the adapter for management, on which no job rests"),
    (r"pci\.\w+\.aer_.*", "firmware may keep these counters for itself"),
    (
        (
            r"nvml\.gpus\.(temperature_s\w+|retired_\w+|recovery_action|fabric\.health_summary|nvlink5)"
            r"\.(why|detail|nvml)|environment\..*\.detail"
        ),
        "why a reading is absent: any reason of absence is one",
    ),
    (r"nvml\.peers", "pairs that are not listed are not judged; copies between GPUs are measured under load"),
    (r"nvml\.gpus\.gsp_mode", "the version of the firmware that runs says that it runs"),
    (r"nvml\.gpus\.(uuid|serial)", "any text that no other part has is a name; consumer cards have no serial number"),
    (r"infiniband\.\w+\.ports\.1\.(netdev|gids.*|gid_types.*)", "only RoCE needs it; the port is InfiniBand"),
    (r"netdev\..*", "the network device of an InfiniBand port: the port itself is judged"),
    (r"clock\..*", "one of three sources of the node's clock: each of the others is enough"),
    (r"limits\.self\..*", "jobs get the limits of slurmd, which are judged"),
    (r"limits\.slurmd", "without slurmd's limits those of the login are judged"),
    (
        r"mounts\.usage\..*\.read_only",
        "the options of the mount say it too, and are judged where the inventory names the mount",
    ),
    (r"mounts\.usage\./(scratch|mnt)\S*", "judged where the inventory names the mount"),
    (
        r"mounts\.usage\./dev/shm\.free_bytes",
        "what is stored there takes memory, of which the available part is judged",
    ),
    (r"mounts\..*", "a larger file system has more room"),
    (r"hooks(\..*)?", "what the hooks of the node noted goes to the fleet's record; no verdict rests on it"),
    (r"jobs\..*", "read for who uses the node before a load; ports are judged where the inventory names them"),
    (
        r"services",
        "no systemd: NVML says that persistence mode is on; what the fabric needs is judged where there is one",
    ),
    (
        r"services\.show",
        "not what is judged here: the made-up node writes it from its units when its document is put together",
    ),
    (r"driver\.(gpus|devices)\..*", "a second word on what PCIe and NVML say; judged where one of these is silent"),
    (
        r"driver\.loaded|nvml\.gpus\.(sram_threshold_exceeded|inforom_valid|nvlinks\.state|persistence_mode)",
        "1 is true, 0 false",
    ),
    (r"environment\..*", "absent, or without a setting of NCCL that is known to harm"),
    (r"cpus\.smt", "SMT on or off is a choice; it explains CPUs that are offline, and none is"),
    (
        (
            r"nvml\.gpus\.(ecc\.aggregate_(sram_un)?corrected|pcie_replays|event_reasons|fabric\.health_mask"
            r"|memory_used_bytes|ecc\.volatile_corrected)|system\.(uptime_s|iommu_groups|kernel_release)"
            r"|kernel_log\.since_epoch_s|cpus\.present"
        ),
        "within the limit, or as on other healthy nodes",
    ),
    (
        r"nvml\.gpus\.(processes|nvlinks)|system\.dstate",
        "an empty list: no process, or a board without NVLink",
    ),
    (r"services\.fabric_manager_\w+", "of a platform that runs no fabric manager"),
    (r"services\.imex\.(why|detail)", "of a board in no NVLink domain of several nodes, which runs no IMEX"),
    (r"system\.cmdline", "a kernel without options is one without IOMMU translation by option; the groups are judged"),
    (r"nvml\.gpus\.\w+_app_\w+", "newer drivers have no application clocks; a default below the clock is none"),
)
ODD: tuple[object, ...] = (
    None, "", "garbage", "N/A", "-1", "0", "999999", -1, 0, 1, 2, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 10**30, 1.5,
    True, [], {}, {"why": "not supported", "detail": ""}, {"why": "missing", "detail": ""},
    {"why": "failed", "detail": ""},
)  # fmt: skip
NVSWITCH, ETHERNET = "0x068000", "0x020000"  # PCI classes
NO_REASON = "(no reason is known)"
NODE = Node("gpu01")
REJECTED, INCOMPLETE, WARNED, ACCEPTED = "rejected", "incomplete", "accepted with a warning", "accepted"
# Of these lists and objects the values of one entry are changed: by its place, or by what its name begins with.
ONE_OF: Mapping[str, object] = {"nvml.gpus": 3, "nvml.gpus.nvlinks": 7, "infiniband": "mlx5_1", "netdev": "ibs1"}
NOT_CHANGED = ("kernel_log.lines",)  # texts that every check of the log has its own tests for


def machine() -> Machine:
    """The healthy node."""
    return Machine.hgx_h100("gpu01")


def shown_devices(made: Machine) -> Mapping[int, str]:
    """The PCIe devices of which the values are changed, one of a kind: by place, what each is."""
    rail, switch_port = made.nic_address(0), made.pci(made.gpu_address(0))["parent"]
    devices = made.sections["pci"]
    of_kind = {
        made.gpu_address(0): "gpu",
        rail: "rail",
        switch_port: "switch_port",
        next(each["address"] for each in devices if not each["parent"]): "root_port",
        next(each["address"] for each in devices if each["class"] == ETHERNET): "management",
    }
    of_kind.update((each["address"], "nvswitch") for each in devices[::-1] if each["class"] == NVSWITCH)
    first = next((each["address"] for each in devices if each["class"] == NVSWITCH), "")
    of_kind = {address: kind for address, kind in of_kind.items() if kind != "nvswitch" or address == first}
    return {place: of_kind[each["address"]] for place, each in enumerate(devices) if each["address"] in of_kind}


def places(value: object, devices: Mapping[int, str], where: Place = ()) -> Iterator[Place]:
    """Where the values are that are changed: of equal parts those of one."""
    name = field(where, devices)
    if name in NOT_CHANGED:
        return
    if isinstance(value, dict):
        only = ONE_OF.get(name)
        only = only if isinstance(only, str) else None
        for key, each in value.items():
            if only is None or key == only:
                yield from places(each, devices, (*where, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index in sorted(devices) if name == "pci" else _shown(name, value):
            yield from places(value[index], devices, (*where, index))
    else:
        yield where


def _shown(name: str, entries: list[Any]) -> list[int]:
    """The entries of a list that are changed."""
    only = ONE_OF.get(name, 0)
    return [only] if isinstance(only, int) and only < len(entries) else [0]


def field(where: Place, devices: Mapping[int, str]) -> str:
    """The name of a value without the places in lists; of a PCIe device with its kind."""
    steps = [each for each in where if isinstance(each, str)]
    if where[:1] == ("pci",) and len(where) > 2:
        steps.insert(1, devices[int(where[1])])
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


def cases() -> list[tuple[Place, object]]:
    """Each change: where, and to what."""
    made, found = machine(), []
    for where in places(made.sections, shown_devices(made)):
        at: Any = made.sections
        for step in where:
            at = at[step]
        found += [(where, odd) for odd in ODD if json.dumps(odd) != json.dumps(at)]
    return found


def tried(some: Iterable[tuple[Place, object]]) -> Iterator[tuple[str, object, str]]:
    """Each of these changes with the field and what became of the node."""
    devices = shown_devices(machine())
    for where, odd in some:
        yield field(where, devices), odd, verdict(changed(where, odd), str(where[0]))


def drawn(some: Sequence[Case], share: float) -> tuple[list[Case], str]:
    """So large a share of the cases, the same ones each time, and what a page says of it."""
    found = sorted(random.Random(27).sample(range(len(some)), round(share * len(some))))  # noqa: S311 - no secret
    said = (
        "" if share == 1 else f"\nTried were {len(found):,} of all {len(some):,}, drawn by chance (share {share:g}).\n"
    )
    return [some[at] for at in found], said


def reason(name: str) -> str:
    """Why an odd value of a field may stay accepted; "" where the table has no reason."""
    return next((why for pattern, why in REASONS if re.fullmatch(pattern, name)), "")


def page(outcomes: Sequence[tuple[str, object, str]], share: str = "") -> str:
    """The page: how many changes end how, and the fields of which odd values stay accepted."""
    counts = Counter(outcome for _, _, outcome in outcomes)
    rows: dict[str, list[str]] = defaultdict(list)
    for name, words in shown(outcomes, ACCEPTED).items():
        rows[reason(name) or NO_REASON].append(words)
    return PAGE.format(
        share=share,
        total=len(outcomes),
        fields=len({name for name, _, _ in outcomes}),
        head="".join(f"| {outcome} | {counts[outcome]:,} |\n" for outcome in (REJECTED, INCOMPLETE, WARNED, ACCEPTED)),
        kept="".join(f"| {why} | {', '.join(words)} |\n" for why, words in rows.items()),
        warned="\n".join(f"* {words}" for words in shown(outcomes, WARNED).values()),
    )


def shown(outcomes: Iterable[tuple[str, object, str]], outcome: str) -> dict[str, str]:
    """The fields of which changes end so, each with the values that do, unless all of them do."""
    fields: Counter[str] = Counter()
    kept: dict[str, list[object]] = defaultdict(list)
    for name, odd, found in outcomes:
        fields[name] += 1
        if found == outcome:
            kept[name].append(odd)
    return {name: f"`{name}`" if len(odd) == fields[name] else f"`{name}` ({_some(odd)})" for name, odd in kept.items()}


def unexplained(outcomes: Iterable[tuple[str, object, str]]) -> list[str]:
    """The fields that stay accepted without a reason."""
    return [name for name in shown(outcomes, ACCEPTED) if not reason(name)]


def _some(values: list[object]) -> str:
    """The values that stay accepted, the first few."""
    words = list(dict.fromkeys(_word(value) for value in values))
    return ", ".join(words[:MOST_WORDS]) + (f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else "")


def _word(value: object) -> str:
    return str(value["why"]) if isinstance(value, dict) and value else json.dumps(value)


def main() -> None:
    """Try all of them and write the page; 1 where a field that stays accepted has no reason."""
    some, share = drawn(cases(), float(sys.argv[2]) if len(sys.argv) > 2 else 1)
    outcomes = list(tried(some))
    Path(sys.argv[1]).write_text(page(outcomes, share), "utf-8")
    if missing := unexplained(outcomes):
        sys.exit(f"no reason in REASONS for what stays accepted: {', '.join(missing)}")


if __name__ == "__main__":
    main()
