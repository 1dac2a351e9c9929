"""Copies: the memory of each GPU, and the ways from it to the host and to other GPUs, are fast and lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import CannotMeasure, Verdict, part
from nodegate.measure.copies import findings, host_findings
from nodegate.measure.copies.document import ALONE, AT_ONCE
from nodegate.measure.copies.result import (
    BOTH_WAYS,
    DEVICE,
    KERNELS,
    OTHER,
    PEER,
    TO_DEVICE,
    TO_DEVICE_AT_ONCE,
    TO_HOST,
    TO_HOST_AT_ONCE,
)
from nodegate.measure.own_program import facts_by_index
from nodegate.metric_names import words
from nodegate.numbers import metric_findings
from nodegate.records.finding import OWN_WORD
from nodegate.tools import nvbandwidth

if TYPE_CHECKING:
    from nodegate.api import Baseline, Copies, Gpus, NodePeers, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_SLOW_MEMORY = "compare memory clock and ECC errors with a good GPU; replace the board"
_CONTENTION = "look at what GPUs share: PCIe switch uplinks, memory channels, IOMMU and ACS settings"
_BY_HAND = "run nvbandwidth on the node by hand and check its output"


@pytest.mark.tier("delivery")
def test_complete(gpu_copies: Copies, gpus: Gpus, verdicts: Verdicts) -> None:
    """Every GPU made all its copies and answered to the end. (F01, F02)

    A GPU that took no part has no number that could be low. One that stops under copies which are known to be good is
    itself at fault.
    """
    for several in gpu_copies.gpus.values():
        for attempt in several:
            findings.took_part(attempt, verdicts)
    seen = {id(gpu) for gpu in facts_by_index(gpus, gpu_copies.gpus).values()}
    for gpu in gpus.devices:
        if id(gpu) not in seen:
            verdicts.found(Verdict.ERROR, part=gpu.part, text="took no part in the copies", action=findings.AGAIN)
    for why in gpu_copies.failed:
        verdicts.unknown(part=part.tool("copies"), quantity="one attempt", reason=why.reason, action=why.next_step)


def test_data(gpu_copies: Copies, verdicts: Verdicts) -> None:
    """What is copied arrives as it was: to the host and back, inside each GPU, and between GPUs. (F03, F05, F13)

    Wrong data spoils a training without any message. A pattern in which every word says where it belongs is compared on
    the GPU after the last copy of each series; where a word is wrong, the host's memory tells on which way it was lost.
    """
    findings.judge_data(gpu_copies, verdicts)


def test_host_to_device(
    gpu_copies: Copies, gpus: Gpus, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Copies from pinned host memory to each GPU are as fast as its PCIe link. (F05, F09)

    Loading data and checkpoints waits for it. Half of the lanes give half of the rate: 27 GB/s is what a Gen5 x8 or a
    Gen4 x16 link gives. One GPU copies at a time, from memory beside it, by its copy engine. Source: nvbandwidth.
    """
    findings.missing(gpu_copies, TO_DEVICE, verdicts)
    rates = gpu_copies.named(TO_DEVICE)
    host_findings.judge_rates(rates, gpu_copies, gpus, baseline=baseline, peers=peers, verdicts=verdicts)


def test_device_to_host(
    gpu_copies: Copies, gpus: Gpus, baseline: Baseline, peers: NodePeers, verdicts: Verdicts
) -> None:
    """Copies from each GPU to pinned host memory are as fast as its PCIe link. (F05, F09)

    Checkpoints and offloading wait for it. A link can be bad in one direction alone. Source: nvbandwidth.
    """
    findings.missing(gpu_copies, TO_HOST, verdicts)
    rates = gpu_copies.named(TO_HOST)
    host_findings.judge_rates(rates, gpu_copies, gpus, baseline=baseline, peers=peers, verdicts=verdicts)


@pytest.mark.tier("delivery")
def test_host_at_once(gpu_copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """With all GPUs at once, host copies of each are as fast as on the other nodes. (F05, F09, F32)

    GPUs share switch uplinks and memory channels, so the rate may be lower than alone by design; the fleet says by how
    much. A node with a missing DIMM or with IOMMU in the way is fast alone and slow at once.
    """
    names = {TO_DEVICE_AT_ONCE: TO_DEVICE, TO_HOST_AT_ONCE: TO_HOST}
    metrics = [metric for name in names for metric in gpu_copies.named(name)]
    if not metrics and len(gpu_copies.gpus) == 1:
        verdicts.by_design("only one GPU", witness=OWN_WORD)
    for name in names:
        findings.missing(gpu_copies, name, verdicts)
    for metric in metrics:  # each by itself: within a node some share an uplink and others do not
        metric_findings.judge(verdicts, [metric], baseline=baseline, peers=peers, remedy=_CONTENTION)


@pytest.mark.tier("delivery")
def test_host_both_ways(gpu_copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Copies to and from a GPU at the same time are together no slower than one way alone. (F05, F09)

    A link can be well in each direction and slow in both: credits, relaxed ordering, an IOMMU in the way. One GPU at a
    time, half of a buffer out and the other half in. It runs at delivery.
    """
    if not any(each.both_ways for each in gpu_copies.runs):
        verdicts.not_done("simultaneous copies in both directions are skipped in a run this short")
    findings.missing(gpu_copies, BOTH_WAYS, verdicts)
    if gpu_copies.named(BOTH_WAYS):
        metrics = gpu_copies.named(BOTH_WAYS)
        metric_findings.judge(verdicts, metrics, baseline=baseline, peers=peers, remedy=host_findings.BEHIND)


@pytest.mark.tier("delivery")
def test_link(gpu_copies: Copies, gpus: Gpus, verdicts: Verdicts) -> None:
    """While a GPU copies, its PCIe link runs at the generation that device and slot have, and loses no lanes. (F05)

    An idle GPU lowers its link to save power, so its speed can only be judged at work. A link that is too narrow from
    the start is found by pcie.link_width.
    """
    findings.judge_link(ALONE, gpu_copies, gpus, verdicts)
    if len(gpu_copies.gpus) > 1:
        findings.judge_link(AT_ONCE, gpu_copies, gpus, verdicts)


def test_device_memory(gpu_copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """The copy engine of every GPU copies inside its memory as fast as that of its model. (F09)

    Bytes read and written are both counted. By design an engine gives less than the memory (two thirds on an H200), so
    how fast the memory is, copies.memory_bandwidth says.
    """
    findings.missing(gpu_copies, DEVICE, verdicts)
    if gpu_copies.named(DEVICE):
        metric_findings.judge(verdicts, gpu_copies.named(DEVICE), baseline=baseline, peers=peers, remedy=_SLOW_MEMORY)


def test_memory_bandwidth(gpu_copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Kernels read, copy and add in the memory of every GPU as fast as that of its model. (F09)

    Most of a training waits for memory, not for arithmetic. Good boards give about 90 % of their peak. All bytes that a
    kernel reads and writes are counted, of operands far larger than the caches.
    """
    if not any(each.kernels for each in gpu_copies.runs):
        verdicts.not_done("these copies were made by a release without memory kernels")
    for name in KERNELS:
        findings.missing(gpu_copies, name, verdicts)
    metrics = [metric for name in KERNELS for metric in gpu_copies.named(name)]
    if metrics:
        metric_findings.judge(verdicts, metrics, baseline=baseline, peers=peers, remedy=_SLOW_MEMORY)


@pytest.mark.tier("delivery")
def test_memory_pattern(gpu_copies: Copies, baseline: Baseline, verdicts: Verdicts) -> None:
    """The whole memory of every GPU holds what is written to it: addresses, hashes, walking bits. (F03)

    A stuck bit, a lost address line or a weak cell that ECC does not see spoils a training without any message. Kernels
    write each pattern and its inverse to all of the memory, then read all of it back. It runs at delivery.
    """
    if not any(each.patterns for each in gpu_copies.runs):
        verdicts.not_done("the whole memory is tested only at delivery")
    findings.judge_patterns(gpu_copies, baseline.number("memory.tested_percent"), verdicts)


@pytest.mark.tier("nightly")
def test_peer(gpu_copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Every GPU copies to its partners as fast as the platform joins them. (F09, F13, F32)

    The lowest pair of each GPU is judged, in either direction, and named. One bad link shows at both of its ends; a GPU
    that is slow with every partner is the one to look at.
    """
    if all(each.asked in {"none", ""} for each in gpu_copies.runs):
        verdicts.not_done("copies between GPUs are skipped in a run this short")
    if len(gpu_copies.gpus) == 1:
        verdicts.by_design("only one GPU", witness=OWN_WORD)
    findings.judge_reach(gpu_copies, baseline, verdicts)
    if gpu_copies.named(PEER):
        findings.judge_peers(gpu_copies, baseline, peers, verdicts)
    elif not verdicts.findings and gpu_copies.pairs:
        findings.end_without_peers(baseline, verdicts)
    have = {index for pair in gpu_copies.pairs for index in pair}
    for index, several in gpu_copies.gpus.items():
        if index not in have:
            findings.not_measured(several, f"copy rate ({words(PEER)})", verdicts, otherwise="it was not reached")


@pytest.mark.tier("delivery")
def test_nvbandwidth(gpu_copies: Copies, gpus: Gpus, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """Where the program nvbandwidth is installed, it comes to the same answer. (F05, F09, F13)

    A second opinion by other code. Its exit code is not believed: it is 0 though a case failed. It runs at delivery.
    """
    if not gpu_copies.others:
        verdicts.not_done("nvbandwidth was not run: it is not installed, or the profile is not delivery")
    for other in gpu_copies.others:
        if isinstance(other, CannotMeasure):
            verdicts.unknown(part=part.tool(OTHER), quantity="result", reason=other.reason, action=other.next_step)
            continue
        if other.wrong_data:
            message = f"copied data wrong at {other.wrong_data} place{'s' if other.wrong_data > 1 else ''}"
            verdicts.found(
                Verdict.FAIL,
                part=part.tool(OTHER),
                text=message,
                action=findings.LOST,
                quantity="wrong data",
                observed=other.wrong_data,
                code="wrong data",
            )
        for case in other.cases:
            if case.status not in {nvbandwidth.PASSED, nvbandwidth.WAIVED}:
                reason = case.detail or (other.told[0] if other.told else f"it ended as {case.status}")
                verdicts.unknown(part=part.tool(OTHER), quantity=case.name, reason=reason, action=_BY_HAND)
    host = [each for name in (TO_DEVICE, TO_HOST) for each in gpu_copies.named(name, OTHER)]
    host_findings.judge_rates(host, gpu_copies, gpus, baseline=baseline, peers=peers, verdicts=verdicts)
    if pairs := gpu_copies.named(PEER, OTHER):
        metric_findings.judge(verdicts, pairs, baseline=baseline, peers=peers, remedy=findings.RESEAT)
