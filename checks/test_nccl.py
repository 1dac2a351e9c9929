"""NCCL inside the node: collectives over all GPUs end, bring right data and are as fast as the platform's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Verdict, part
from nodegate.measure.nccl import findings
from nodegate.subjects.host import judge_version

if TYPE_CHECKING:
    from nodegate.api import Baseline, Gpus, Nccl, NodePeers, Verdicts

pytestmark = pytest.mark.tier("delivery")


@pytest.mark.tier("nightly")
def test_data(nccl: Nccl, verdicts: Verdicts) -> None:
    """Every element that a collective over the node's GPUs brings is right. (F03, F13)

    Wrong sums spoil a training run without any error. nccl-tests compares every element with the value that it must
    have (-c 1), at every size.
    """
    findings.judge_data(verdicts, nccl)


@pytest.mark.tier("nightly")
def test_hang(nccl: Nccl, verdicts: Verdicts) -> None:
    """Every collective over the node's GPUs ends in time. (F12, F13, F21, F24)

    A hang on one node holds all nodes of a job until its watchdog ends it. Where all_reduce hangs and ends with
    NCCL_ALGO=Ring, NVLS is at fault: the fabric manager, or its version.
    """
    findings.judge_hangs(verdicts, nccl)


@pytest.mark.tier("nightly")
def test_complete(nccl: Nccl, gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every collective runs to its end with all GPUs of the node, at the size that was asked for. (F02, F21, F24)

    An exit code says little: nccl-tests returns 0 for a mistyped option. A result counts that has every GPU in its
    list, the size that was asked for, both closing lines, and numbers that follow from each other. Each rank is on a
    GPU of its own that this node has.
    """
    findings.judge_completeness(verdicts, nccl, baseline)
    findings.judge_devices(verdicts, nccl, gpus)


@pytest.mark.tier("nightly")
def test_all_reduce(nccl: Nccl, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """all_reduce over the node's GPUs is as fast as on a good node of the platform. (F09, F13)

    The bus bandwidth of one size, out of place; the average that nccl-tests prints mixes all sizes. Where NVLS is not
    in use, nccl.nvls says so, and Ring is judged by nccl.collectives.
    """
    if findings.lost_nvls(nccl, baseline):
        verdicts.skip("NVLS is not in use, which nccl.nvls reports")
    remedy = (
        "look at NVLink errors and SXid lines, and at the GPUs' clocks under load; reseat or replace what stands out"
    )
    whats = ("all_reduce",)
    findings.judge_bandwidth(verdicts, nccl, whats, baseline=baseline, peers=peers, remedy=remedy)


@pytest.mark.tier("nightly")
def test_nvls(nccl: Nccl, baseline: Baseline, verdicts: Verdicts) -> None:
    """NCCL sums in the NVSwitches (NVLS) where the platform can. (F12)

    Without it all_reduce loses a quarter of its bandwidth and nothing is broken that another check would see: H100 480
    GB/s with it, 370 without. Source: NVIDIA/nccl-tests issue 212.
    """
    findings.judge_nvls(verdicts, nccl, baseline)


def test_collectives(nccl: Nccl, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """The other collectives over the node's GPUs are as fast as on a good node of the platform. (F09, F13, F24)

    all_reduce by Ring, all_gather, reduce_scatter, alltoall and sendrecv: sharded and expert-parallel jobs need them.
    """
    remedy = "look at NVLink errors and SXid lines; on PCIe boards at peer access (ACS, IOMMU) and link widths"
    findings.judge_bandwidth(verdicts, nccl, findings.OTHERS, baseline=baseline, peers=peers, remedy=remedy)


def test_version(nccl: Nccl, baseline: Baseline, verdicts: Verdicts) -> None:
    """The NCCL that the node's tests run with is new enough. (F20)

    NCCL before 2.21.5 mixes up bootstrap messages ("Message truncated"). It warns: jobs mostly bring their own NCCL.
    Source: NCCL 2.21.5 release notes, NVIDIA/nccl issue 1273.
    """
    if findings.no_version(verdicts, nccl):
        return
    judge_version(
        verdicts,
        whose=part.software("NCCL"),
        version=nccl.version,
        limit=baseline.limit("software.nccl_version_min"),
        remedy="update NCCL on the node or in the image that brings it",
        otherwise=Verdict.WARN,
    )
