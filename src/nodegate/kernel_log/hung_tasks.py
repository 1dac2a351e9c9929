"""Tasks that hang: who they are and where they wait, from the stack in the kernel log or from what waits now."""

import re
from collections.abc import Mapping, Sequence

from nodegate.kernel_log.incidents import incidents, tell_one
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.host import Host
from nodegate.probe.kernel_log import KernelLine, KernelLog
from nodegate.unknown import Unknown
from nodegate.verdicts import Verdicts

_MOST_LINES = 40  # of one report: the kernel prints some twenty frames
_HUNG = "blocked for more than"
_FRAME = re.compile(
    r"^ {0,4}(?P<guessed>\? )?(?P<function>[A-Za-z_][\w.]{1,80})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
    r"(?: \[(?P<module>\w{1,40})\])?"
)
# How a task waits, not for what.
_WAITING = re.compile(
    r"__?schedule\w*|schedule\w*|io_schedule\w*|__switch_to\w*|context_switch|preempt_\w+|wait_for_completion\w*"
    r"|__wait_\w+|wait_on_\w+|out_of_line_wait\w*|bit_wait\w*|__?mutex_\w+|mutex_\w+|rwsem_\w+|down_\w+|__down\w*"
    r"|rt_mutex_\w+|__lock_\w+|folio_wait_\w+|do_wait\w*"
)
_SORTS = (
    (re.compile(r"nfs|rpc_|xprt"), "NFS"),
    (re.compile(r"ll_|lustre|ptlrpc|cl_|osc_|mdc_|lov_|ldlm"), "Lustre"),
    (re.compile(r"ceph|rbd"), "Ceph"),
    (re.compile(r"gpfs|mmfs|cxi"), "GPFS"),
    (re.compile(r"nvidia|uvm_|nv_|rm_|_nv\d"), "the GPU driver"),
    (re.compile(r"mlx[45]|ib_|rdma|ucma"), "the NIC driver"),
    (re.compile(r"nvme|blk_|xfs|ext4|jbd2|btrfs|submit_bio|md_|raid"), "a disk or local file system"),
    (re.compile(r"fuse"), "a FUSE file system"),
)


def tell(log: KernelLog, host: Host, window: LogWindow, verdicts: Verdicts) -> None:
    """A finding for each task that hung."""
    stacks = _stacks(log.lines)
    blocked = () if isinstance(host.blocked, Unknown) else host.blocked  # where each waits now, by its id
    waiting = {str(each.pid): _named(each.waits_in) for each in blocked if each.waits_in not in ("", "0")}
    for incident in incidents(log, "hung_task", window):
        stack, now = stacks.get(incident.device), waiting.get(incident.device.rpartition(":")[2])
        said = [*([f"waited in {stack}"] if stack else []), *([f"still waits in {now}"] if now else [])]
        where = " and ".join(said) or "the log does not say where"
        tell_one(incident, window, verdicts, when=f"{incident.when}, {where}")


def _place(frames: Sequence[str]) -> str:
    """Where a stack waits: its first function that is no mere waiting, and what that belongs to; "" when none is."""
    sure = (match for frame in frames if (match := _FRAME.match(frame)) and not match["guessed"])
    at = next((match for match in sure if not _WAITING.fullmatch(match["function"])), None)
    return _named(at["function"], at["module"] or "") if at else ""


def _named(function: str, module: str = "") -> str:
    """A function of the kernel with the sort of thing it belongs to: "nfs_wait_bit_killable (NFS)"."""
    sort = next((sort for pattern, sort in _SORTS if pattern.match(module) or pattern.match(function)), "")
    return f"{function} ({sort})" if sort else f"{function} ({module})" if module else function


def _stacks(lines: Sequence[KernelLine]) -> Mapping[str, str]:
    """Where each task ("name:pid") waited, by the stack that follows its report."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        match = re.search(r"task (\S{1,120}:\d{1,12}) ", line.text) if _HUNG in line.text else None
        if match and match[1] not in found:
            following = [each.text for each in lines[number + 1 : number + 1 + _MOST_LINES]]
            end = next((index for index, text in enumerate(following) if _HUNG in text), len(following))
            where = _place(following[:end])
            if where:
                found[match[1]] = where
    return found
