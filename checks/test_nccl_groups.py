"""NCCL over several nodes: collectives over pairs, racks and the fleet end, bring right data and are fast enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nodegate.api import Limit, Verdict, counted, part, with_unit
from nodegate.measure.groups import findings, transport
from nodegate.measure.groups.result import NAMES
from nodegate.measure.nccl.findings import CORRUPT
from nodegate.numbers import metric_findings

if TYPE_CHECKING:
    from nodegate.api import Baseline, NcclGroups, NodePeers, Rdma, Verdicts

pytestmark = pytest.mark.tier("delivery")

SLOW = (
    "look at the node's rails one by one (rdma_bandwidth), then at GPU memory in RDMA (nvidia_peermem or dma-buf), at "
    "ACS, and at the settings of NCCL"
)
WIDE = "where its pairs are fast it is the fabric between them: uplinks, congestion control, routing"


@pytest.mark.tier("nightly")
def test_launch(nccl_groups: NcclGroups, verdicts: Verdicts) -> None:
    """NCCL starts over this node and others, all with one build of nccl-tests and NCCL. (F19, F20, F33)

    What stops a launch here (ssh between nodes, names, paths, slots) stops a job too. Different versions of NCCL in one
    job hang it or end it.
    """
    findings.skip_alone(verdicts, nccl_groups)
    launched = [run for run in nccl_groups.runs if run.plan.kind != "part"]
    refused = [run for run in launched if run.ending in {"refused", "incomplete"}]
    started = [run for run in launched if run not in refused]
    mixed = [run for run in started if run.plan.builds > 1]
    if refused and not any(run.is_well for run in launched if run.attempt == refused[-1].attempt):
        run = refused[-1]
        verdicts.unknown(
            part=part.collective(run.plan.group), quantity=f"{run.what} result", reason=run.why, action=run.next_step
        )
    elif mixed:
        message = f"{mixed[0].plan.builds} builds of nccl-tests or NCCL among its nodes"
        remedy = "install the same nccl-tests and NCCL on all nodes; sha256sum tells them apart"
        verdicts.found(
            Verdict.WARN,
            part=part.collective(mixed[0].plan.group),
            text=message,
            action=remedy,
            quantity="builds",
            observed=mixed[0].plan.builds,
        )
    elif started:
        groups = len({run.plan.group for run in started})
        verdicts.passed(
            part=part.collective("launches"), text=f"{len(started)} over {groups} groups", observed=len(started)
        )
    else:
        reason, step = findings.why_not(nccl_groups, "all_reduce")
        verdicts.cannot(reason, next_step=step)


@pytest.mark.tier("nightly")
def test_data(nccl_groups: NcclGroups, verdicts: Verdicts) -> None:
    """Every element that a collective over several nodes brings is right. (F03, F07)

    Wrong sums spoil a training run without any error. Where a group brings some, the node is found by smaller groups.
    """
    findings.skip_alone(verdicts, nccl_groups)
    findings.judge_endings(
        verdicts,
        nccl_groups,
        lambda run: run.test is not None and run.test.corrupt,
        lambda run: f"{counted(run.test.wrong if run.test else 0, 'wrong element')}: {CORRUPT}",
        "right data",
    )


@pytest.mark.tier("nightly")
def test_hang(nccl_groups: NcclGroups, verdicts: Verdicts) -> None:
    """No collective over this node and others hangs or fails. (F07, F14, F21, F24)

    A collective hangs with any node that does. Where one hangs, halves of its nodes are run until the node is found: it
    is named, and the others pass.
    """
    findings.skip_alone(verdicts, nccl_groups)
    findings.judge_endings(
        verdicts, nccl_groups, lambda run: run.ending in {"hung", "faulty"}, lambda run: run.why, "ended"
    )


@pytest.mark.tier("nightly")
def test_transport(nccl_groups: NcclGroups, rdma: Rdma, verdicts: Verdicts) -> None:
    """NCCL sends to other nodes over RDMA where the node has it. (F07, F20)

    Without its plug-in, a device file or enough locked memory NCCL falls back to TCP sockets and says so only with
    NCCL_DEBUG=INFO: 3 GB/s in place of 480. Source: NVIDIA/nccl, "Using network"; AWS p5 without its plug-in.
    """
    findings.skip_alone(verdicts, nccl_groups)
    transport.judge_network(verdicts, nccl_groups, rdma)


@pytest.mark.tier("nightly")
def test_nvlink_between(nccl_groups: NcclGroups, verdicts: Verdicts) -> None:
    """Between trays of one NVLink domain NCCL uses NVLink (MNNVL). (F12, F13)

    Without an IMEX domain of all trays it goes over the network: all_reduce over trays falls from 880 to 190 GB/s, and
    a test with it "on" passes as one with it "off". Source: NVIDIA IMEX service guide; NVIDIA/nccl, "MNNVL 1".
    """
    findings.skip_alone(verdicts, nccl_groups)
    transport.judge_nvlink_between(verdicts, nccl_groups)


@pytest.mark.tier("nightly")
def test_all_reduce(
    nccl_groups: NcclGroups, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """all_reduce over this node and a neighbour is as fast as over other pairs. (F07, F09, F14)

    A pair is as slow as its slower node: a suspect is measured with nodes that passed, and the best pair counts.
    """
    findings.skip_alone(verdicts, nccl_groups)
    whats, kinds = ("all_reduce",), ("pair",)
    rates = findings.bounds_of(rdma, in_check=True)
    findings.judge_bandwidth(
        verdicts, nccl_groups, whats, kinds, baseline=baseline, peers=peers, remedy=SLOW, physics=rates
    )


def test_collectives(
    nccl_groups: NcclGroups, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Alltoall and sendrecv over this node and a neighbour are as fast as over other pairs. (F07, F09, F14, F24)

    Expert-parallel and pipeline-parallel jobs need them; they open more connections than all_reduce.
    """
    findings.skip_alone(verdicts, nccl_groups)
    whats, kinds = ("alltoall", "sendrecv"), ("pair",)
    rates = findings.bounds_of(rdma, in_check=True)
    findings.judge_bandwidth(
        verdicts, nccl_groups, whats, kinds, baseline=baseline, peers=peers, remedy=SLOW, physics=rates
    )


def test_wide(nccl_groups: NcclGroups, rdma: Rdma, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Collectives over the rack and over the fleet are as fast as the rails and as racks of this size. (F07, F09, F14)

    What pairs cannot show: uplinks that are too few, congestion, a switch that is slow. All nodes of a launch have one
    value, which proves nothing by itself: it is held to a share of the rails' rate, and to other launches over as many
    nodes. A rack that is slow because of one node is not held against the others.
    """
    findings.skip_alone(verdicts, nccl_groups)
    if not any(run.plan.kind in {"rack", "fleet"} for run in nccl_groups.runs):
        verdicts.not_done("the node is in no group of more than two nodes, or the profile asks for pairs only")
    whats, kinds = ("all_reduce", "alltoall", "sendrecv"), ("rack", "fleet")
    rates = findings.bounds_of(rdma, in_check=True)
    findings.judge_bandwidth(
        verdicts, nccl_groups, whats, kinds, baseline=baseline, peers=peers, remedy=WIDE, physics=rates
    )


def test_share_of_rate(nccl_groups: NcclGroups, rdma: Rdma, baseline: Baseline, verdicts: Verdicts) -> None:
    """all_reduce over this node and a neighbour reaches its share of what the node's rails can carry. (F07, F14, F32)

    It holds where the whole fleet is slow alike: the wires are fast one by one, and NCCL is not, for want of GPU memory
    in RDMA or by rails that it does not use (NVIDIA/nccl issue 2409). A rule of thumb is 96 % (nccl-tests issue 267).
    Of a slow pair whose other node met nobody else, nobody can say which of the two it is: an error.
    """
    findings.skip_alone(verdicts, nccl_groups)
    limit = findings.least_by_rate(rdma, baseline)
    found = [each for each in nccl_groups.named(NAMES["all_reduce"]) if not nccl_groups.is_for_others(each)]
    metrics = [each for each in found if each.conditions.get("group") == "pair"]
    partner = findings.sole_partner(nccl_groups)
    for metric in metrics:
        seen: dict[str, Any] = {
            "part": metric_findings.part_of(metric),
            "quantity": metric_findings.quantity_of(metric),
        }
        is_less = isinstance(limit, Limit) and metric.best < limit.value
        if is_less and "racks" in metric.conditions:
            reason = f"{with_unit(metric.best, 'GB/s')} over two racks, where good nodes are slower too"
            verdicts.unknown(**seen, reason=reason, action="measure it with a good node of its own rack")
        elif partner and is_less:
            reason = f"{with_unit(metric.best, 'GB/s')} with {partner} alone: either node or the path may be slow"
            verdicts.unknown(**seen, reason=reason, action="measure it with a third node, which tells the two apart")
        else:
            verdicts.at_least(**seen, observed=round(metric.best, 2), limit=limit, action=SLOW)
    if not metrics:
        reason, step = findings.why_not(nccl_groups, "all_reduce")
        verdicts.cannot(reason, next_step=step)
