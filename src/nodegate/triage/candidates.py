"""Which errors can be the first one of a job, and which of these is the earliest: what follows from what."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache

from nodegate.knowledge import tables
from nodegate.knowledge.roots import INCIDENT_S, SLACK_S, follows
from nodegate.knowledge.words import Cause, Role, Side
from nodegate.knowledge.xid_lines import FELL_OFF_THE_BUS
from nodegate.records.verdict import Verdict
from nodegate.triage import details
from nodegate.triage.episodes import SKEW_S, Ending, began
from nodegate.triage.events import Event
from nodegate.triage.place import same_node, without_domain
from nodegate.triage.reading import Case

NODE_FAILED = frozenset(("slurm_node_failed", "k8s_node_not_ready"))
ERROR_LINE = "error_line"  # looks like an error, and nothing more is known of it
NEAR_S = 60.0  # within which a kernel message on the same node explains an error of a rank
_PRINTED_LATER_S = 10.0  # by which the kernel's line may come after the error that it explains
_BEFORE_HANG_S = 600.0  # how long before the first symptom a kernel message can be its cause
# Printed at start-up or later by jobs that continue: a first error only if there is no other.
SOFT = frozenset(
    (
        *("tool_missing", "nccl_over_sockets", "nan_loss", "nccl_ib_slower", "nccl_ib_failover", "nccl_ib_open"),
        *("nccl_sharp",),
        *("nvml_mismatch", "cpu_hot", "nic_module_hot", "machine_check", "firmware_error", "iommu_fault"),
        *("disk_buffer_error", "pcie_slow_link", "nvrx_straggler", "nccl_ofi_start", "clocks_differ", "power_capped"),
        *("interrupt_switched_off", "nvme_error", "gpu_memory_not_joined", "nic_settings_damaged", "ecc_off"),
        *("nic_module_refused", "cpu_expedited_stall", "nic_recovering"),
    )
)
# Beside NCCL's: what they end or kill follows from the hang that they saw.
_WATCHDOGS = frozenset(("engine_watchdog", "engine_worker_silent", "watchdog_stuck", "nvrx_no_heartbeat"))
_CONTAINED = 94
_GENERAL = frozenset(
    ("python_error", "nccl_warning", "nccl_system_error", "unknown_error", "cpp_exception", ERROR_LINE)
)
_LOST_GPU = "xid_79"
_ANY_DEVICE = "*"
_NOT_IN_THE_TABLE = 0  # all these codes are one
_OF_ONE_FAULT_S = 60.0  # within which the errors of switches belong to a GPU that was lost
# A trainer computes a step again that gave no number, and says what came of it.
_COMPUTED_AGAIN = frozenset(("rerun_other_gpu", "rerun_not_reproducible", "rerun_undecided", "sdc_replay"))
_NO_NUMBER = frozenset(("nan_gradient", "nan_loss"))
XID = re.compile(r"xid_[0-9]{1,5}")


def candidates(case: Case, ending: Ending, time_outs: Sequence[Event]) -> list[Event]:
    """What can be the first error of the job, in any order."""
    spoke = [*time_outs, *(event for event in ending.events if event.kind.id in _WATCHDOGS)]
    found = [event for event in _not_after(spoke, ending.events) if event.kind.role in (Role.PRIMARY, Role.EITHER)]
    if any(event.kind.id in _COMPUTED_AGAIN for event in found):
        found = [event for event in found if event.kind.id not in _NO_NUMBER]
    known = [event for event in found if event.kind.id != ERROR_LINE]
    others = any(event.kind.role is Role.CONSEQUENCE for event in ending.events)
    found = _near_the_end(known if known or others else found, ending)
    began_s = _times_of_xids(found)
    return _of_the_job([event for event in found if not _is_after(event, began_s)], case)


def _of_the_job(found: list[Event], case: Case) -> list[Event]:
    """Without what other machines report, if the nodes of all ranks are known and the job has an error of its own."""
    names = case.found.names
    nodes = set(names.node_of_rank.values())
    if not names.world or not names.node_of_rank.keys() >= set(range(names.world)) or nodes & names.pods:
        return found

    def is_own(event: Event) -> bool:
        machine = event.place.node or names.home.get(event.place.pod, event.place.pod)
        return not machine or any(same_node(machine, node) for node in nodes)

    return list(filter(is_own, found)) or found


def _not_after(time_outs: Sequence[Event], events: Sequence[Event]) -> list[Event]:
    """What was printed before the first time-out was. A scheduler notices late that a node failed."""
    spoke = min((event.printed_s for event in time_outs if event.printed_s is not None), default=None)
    first_line: dict[tuple[str, str], int] = {}
    for event in time_outs:
        key = (event.log, event.place.source)
        first_line[key] = min(event.line, first_line.get(key, event.line))

    def late(event: Event) -> bool:
        if not event.about:
            skew_s = SKEW_S if event.kind.role is Role.EITHER else 0
            return spoke is not None and (event.printed_s or 0.0) > spoke - skew_s
        # A fault of a machine that a rank reports never comes of a time-out, in whatever order the lines are.
        fault = event.kind.role is Role.PRIMARY and event.kind.cause in (Cause.HARDWARE, Cause.FABRIC, Cause.STORAGE)
        if event.line > first_line.get((event.log, event.place.source), event.line) and not fault:
            return True
        return event.early_s is not None and spoke is not None and event.early_s > spoke + SKEW_S

    return [event for event in events if event.kind.id in (*NODE_FAILED, *_WATCHDOGS) or not late(event)]


def _near_the_end(found: list[Event], ending: Ending) -> list[Event]:
    """Without kernel messages from long before the first symptom, if there are others."""
    symptoms = [
        event.began_s
        for event in ending.events
        if event.kind.side is Side.USER and event.kind.role is not Role.CONTEXT and event.began_s is not None
    ]
    if not symptoms:
        return found
    earliest = min(symptoms) - _BEFORE_HANG_S
    return [event for event in found if event.began_s is None or event.began_s >= earliest] or found


def earliest(found: Sequence[Event]) -> Event | None:
    """The earliest; among those within the clock skew of two nodes the one that explains the others."""
    hard = [event for event in found if not soft(event)] or list(found)
    if not hard:
        return None
    begun = [
        event.late_s - event.ran_s if event.about and event.late_s is not None else event.began_s for event in hard
    ]
    first_s = min((when for when in begun if when is not None), default=None)
    if first_s is None:
        return min(hard, key=lambda event: (weight(event), event.line))
    near = [event for event in hard if _may_have_begun(event, first_s)]
    best = min(near, key=lambda event: (weight(event), began(event)))
    if best.kind.role is Role.EITHER and best.kind.cause is Cause.UNKNOWN:
        if reason := _machine_fault_near(best, hard):
            return reason
        timeless = [event for event in hard if event.began_s is None and event.kind.role is Role.PRIMARY]
        return min(timeless, key=lambda event: (weight(event), event.line)) if timeless else best
    return best


def _machine_fault_near(event: Event, hard: Sequence[Event]) -> Event | None:
    """The kernel message of the same node that explains an error without a reason, also if it came a little later."""
    # A line without a time was put where a collective began: others wait in it before a GPU breaks.
    node, within_s = event.place.node, NEAR_S if event.about else _PRINTED_LATER_S
    of_node = (each for each in hard if node and same_node(each.place.node, node) and apart(each, event) <= within_s)
    faults = [each for each in of_node if each.is_fault and each.kind.cause is not Cause.HOST]
    return min(faults, key=lambda each: (weight(each), began(each)), default=None)


def _may_have_begun(event: Event, when_s: float) -> bool:
    """Whether an event can be of this moment: within the skew of clocks, or between the times around its line."""
    if event.began_s is None:
        return False
    if event.about and event.early_s is not None:
        return event.early_s - SKEW_S <= when_s <= max(event.late_s or 0.0, event.began_s) + SKEW_S
    return abs(event.began_s - when_s) <= SKEW_S


def _times_of_xids(found: Sequence[Event]) -> dict[tuple[str, str, int], list[float]]:
    """When each Xid began, in order: by node without its domain, device and code; of a lost GPU by the node alone too.

    Thousands of one code are looked up by their time, so that a log full of Xids costs no more than it is long.
    """
    began_s: dict[tuple[str, str, int], list[float]] = {}
    for event in found:
        if event.began_s is None or not XID.fullmatch(event.kind.id):
            continue
        code, node = int(event.kind.id[4:]), without_domain(event.place.node)
        code = code if code in tables.xids() else _NOT_IN_THE_TABLE
        for device in (event.device, _ANY_DEVICE) if event.kind.id == _LOST_GPU else (event.device,):
            began_s.setdefault((node, device, code), []).append(event.began_s)
    return {key: sorted(times) for key, times in began_s.items()}


def _is_after(event: Event, began_s: Mapping[tuple[str, str, int], Sequence[float]]) -> bool:
    """Whether it follows: an Xid from another one of the same GPU, an error of a switch from the loss of a GPU."""
    when = event.began_s
    if when is None:
        return False
    node = without_domain(event.place.node)
    if event.kind.id.startswith("sxid_"):
        lost_s = began_s.get((node, _ANY_DEVICE, FELL_OFF_THE_BUS), ())
        return _any_within(lost_s, when - _OF_ONE_FAULT_S, when + _OF_ONE_FAULT_S)
    codes = _codes_before(int(event.kind.id[4:])) if XID.fullmatch(event.kind.id) else ()
    times = (began_s.get((node, event.device, code), ()) for code in codes)
    return any(_any_within(each, when - INCIDENT_S, when + SLACK_S) for each in times)


def _any_within(times: Sequence[float], first_s: float, last_s: float) -> bool:
    at = bisect_left(times, first_s)  # they are in their order
    return at < len(times) and times[at] <= last_s


@cache
def _codes_before(code: int) -> tuple[int, ...]:
    """The codes that an Xid can have followed from."""
    rule, others = tables.xid_rule(code), (*tables.xids(), _NOT_IN_THE_TABLE)
    return tuple(other for other in others if other != code and follows(rule, tables.xid_rule(other), None))


def weight(event: Event) -> int:
    """Among errors of one moment: kernel before program, specific before general, certain before uncertain."""
    if event.kind.role is Role.EITHER:
        return 7 if event.kind.id in _GENERAL else 6
    if soft(event):
        return 5
    if event.kind.id in _GENERAL:
        return 4
    kernel, program = event.kind.side is Side.KERNEL, event.kind.cause is Cause.PROGRAM
    return (3 if kernel else 2) if program else (0 if kernel else 1)


def soft(event: Event) -> bool:
    """Whether jobs usually continue after this, so that it is a first error only if there is no other."""
    return (
        event.kind.id in SOFT
        or event.kind.id in _soft_xids()
        or details.tried_again(event)
        or details.only_warns(event)
    )


@cache
def _soft_xids() -> frozenset[str]:
    """The Xids of the hardware with which a node may still carry jobs; not a contained memory error, which ends one."""
    return frozenset(
        f"xid_{code}"
        for code, rule in tables.xids().items()
        if rule.bootcheck is not Verdict.FAIL and rule.cause is not Cause.PROGRAM and code != _CONTAINED
    )


def apart(one: Event, other: Event) -> float:
    """Seconds between two events; none if one can have been at the time of the other."""
    if one.began_s is None or other.began_s is None:
        return float("inf")
    early_s, late_s = other.early_s, max(other.late_s or 0.0, other.began_s)
    if other.about and early_s is not None and early_s <= one.began_s <= late_s:
        return 0.0
    return abs(one.began_s - other.began_s)
