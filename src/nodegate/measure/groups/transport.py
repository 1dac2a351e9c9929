"""Findings of the ways that NCCL itself says it takes between nodes: RDMA or sockets, NVLink between trays."""

from collections.abc import Callable, Sequence

from nodegate.measure.groups.plan import PAIR
from nodegate.measure.groups.result import GroupRun, NcclGroups
from nodegate.probe.rdma import Rdma
from nodegate.records import part
from nodegate.records.finding import OWN_WORD
from nodegate.records.verdict import Verdict
from nodegate.subjects.rdma import is_active
from nodegate.tools.nccl_log import NcclLog
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

NETWORK, NVLINK = part.collective("network of NCCL"), part.collective("NVLink between nodes")
_SOCKETS_ASKED = ("NCCL_IB_DISABLE=1", "NCCL_NET=Socket")
_MNNVL_ASKED_OFF = ("NCCL_MNNVL_ENABLE=0",)
_BY_HAND = "run the command in the evidence file by hand on its head node with NCCL_DEBUG=INFO"
_NO_RDMA = (
    "look for NCCL_IB_DISABLE, NCCL_NET and NCCL_IB_HCA in /etc/nccl.conf and nodegate_nccl_env, at /dev/infiniband "
    "and the limit of locked memory; in a cloud its plug-in must be in LD_LIBRARY_PATH"
)
_NO_MNNVL = (
    "look at nvidia-imex-ctl -N and nodes_config.cfg (one domain of all trays), /dev/nvidia-caps-imex-channels, and "
    "NCCL_MNNVL_ENABLE in /etc/nccl.conf"
)


def judge_network(verdicts: Verdicts, groups: NcclGroups, rdma: Rdma) -> None:
    """NCCL sends over RDMA where the node has a port in service. Over sockets it is slow, and nothing says so."""
    if not any(device.address and is_active(port) for device in rdma.devices for port in device.ports):
        if rdma.devices:
            verdicts.not_done("the node has no RDMA port in service: see rdma.port_state")
        verdicts.by_design("the node has no RDMA adapter", witness=OWN_WORD)
    runs = _asked(verdicts, groups, _SOCKETS_ASKED)
    slow = [run for run in runs if run.log and run.log.over_sockets]
    log = _first_known(runs, lambda log: log.network)
    if slow:
        text = f"{slow[0].plan.group}: NCCL sends over TCP sockets, and the node has RDMA"
        verdicts.found(
            Verdict.FAIL,
            part=NETWORK,
            text=text,
            action=_NO_RDMA,
            quantity="network",
            observed="Socket",
            code="sockets",
        )
    elif log is None:
        verdicts.unknown(part=NETWORK, quantity="network", reason="NCCL did not say which it uses", action=_BY_HAND)
    else:
        from_gpus = log.gpu_memory
        where = "" if isinstance(from_gpus, Unknown) else f", from {'GPU' if from_gpus else 'host'} memory"
        verdicts.passed(part=NETWORK, text=f"NCCL sends over {log.network}{where}", observed=str(log.network))


def judge_nvlink_between(verdicts: Verdicts, groups: NcclGroups) -> None:
    """Between trays of one NVLink domain NCCL uses NVLink (MNNVL), which needs an IMEX domain of all trays."""
    runs = [run for run in _asked(verdicts, groups, _MNNVL_ASKED_OFF) if run.plan.one_domain]
    if not runs:
        verdicts.not_done("it was launched with no other node of its NVLink domain")
    without = [run for run in runs if run.log and run.log.mnnvl is False]
    if without:
        text = f"{without[0].plan.group}: one NVLink domain, and NCCL goes over the network (MNNVL 0)"
        verdicts.found(
            Verdict.FAIL, part=NVLINK, text=text, action=_NO_MNNVL, quantity="MNNVL", observed=False, code="mnnvl"
        )
    elif _first_known(runs, lambda log: log.mnnvl) is None:
        reason = "NCCL did not say whether it uses it (before 2.21 it cannot)"
        verdicts.unknown(part=NVLINK, quantity="MNNVL", reason=reason, action=_BY_HAND)
    else:
        verdicts.passed(part=NVLINK, text=f"in use (MNNVL 1): {runs[-1].plan.group}", observed=True)


def _asked(verdicts: Verdicts, groups: NcclGroups, asked_off: Sequence[str]) -> list[GroupRun]:
    """The pairs that started, and in which NCCL was to say what it uses.

    Raises:
        Skipped: the inventory switches it off.
        NotDone: no launch asked NCCL, or none started.
    """
    started = [
        run for run in groups.runs if run.plan.kind == PAIR and run.log and run.ending not in {"refused", "incomplete"}
    ]
    off = [word for run in started for word in run.plan.settings.split() if word in asked_off]
    if off:
        verdicts.by_design(f"the inventory sets {off[0]}", witness="the inventory: nodegate_nccl_env")
    if not started:
        verdicts.not_done("no launch over two nodes with NCCL_DEBUG=INFO started: the transport is unknown")
    return started


def _first_known(runs: Sequence[GroupRun], what: Callable[[NcclLog], Known[object]]) -> NcclLog | None:
    return next((run.log for run in reversed(runs) if run.log and not isinstance(what(run.log), Unknown)), None)
