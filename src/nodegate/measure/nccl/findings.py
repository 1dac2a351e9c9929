"""What the checks of NCCL inside a node share: a finding for each launch, whatever became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate import part
from nodegate.baseline.parameters import difference
from nodegate.measure.nccl.launches import ALL_REDUCE, LAUNCHES, RING
from nodegate.numbers import metric_findings
from nodegate.unknown import Unknown
from nodegate.verdict import Verdict

if TYPE_CHECKING:
    from nodegate.baseline.baseline import Baseline
    from nodegate.finding import NumberLimit
    from nodegate.measure.nccl.result import Nccl, Outcome
    from nodegate.numbers.peers import NodePeers
    from nodegate.tools.nccl_tests import NcclTest
    from nodegate.verdicts import Verdicts

ALL = tuple(launch.what for launch in LAUNCHES)
OTHERS = tuple(what for what in ALL if what != ALL_REDUCE)
_FABRIC = "look at nvidia-fabricmanager and its log, at NVLink errors and SXid lines"
_NVLS_KEY = "nccl.nvls"
_STEADY_KEY = "measured.steady_percent"
_GAIN = "all_reduce over Ring"


def judge_data(verdicts: Verdicts, nccl: Nccl) -> None:
    """Wrong data once is wrong data: every attempt counts."""
    for what in ALL:
        corrupt = [test for test in _tests(nccl, what) if test.corrupt]
        final = nccl.final(what)
        if corrupt:
            sizes = ", ".join(str(row.size_bytes) for row in corrupt[0].rows if any(row.wrong_counts)) or "some size"
            verdicts.found(
                Verdict.FAIL,
                part=part.collective(what),
                text=f"{corrupt[0].wrong} elements came back wrong, at {sizes} bytes",
                action="take the node out of work; burn each GPU alone to tell a GPU from the fabric between them",
                quantity="wrong elements",
                observed=corrupt[0].wrong,
            )
        elif final.ending != "whole" or final.test is None:
            verdicts.unknown(part=part.collective(what), quantity="data", reason=final.why, action=final.next_step)
        elif not final.test.checked:
            verdicts.unknown(part=part.collective(what), quantity="data", reason="nccl-tests compared nothing")
        else:
            verdicts.passed(part=part.collective(what), text=f"right at {len(final.test.rows)} sizes", observed=0)


def judge_hangs(verdicts: Verdicts, nccl: Nccl) -> None:
    """A hang in any attempt is one; a launch that was not made says nothing."""
    for what in ALL:
        hung = next((each for each in nccl.of(what) if each.ending == "hung"), None)
        final = nccl.final(what)
        if hung:
            verdicts.found(
                Verdict.FAIL, part=part.collective(what), text=_hang(nccl, hung), action=_after_hang(nccl, hung)
            )
        elif final.ending == "slow" or final.test is None:
            verdicts.unknown(part=part.collective(what), quantity="end", reason=final.why, action=final.next_step)
        else:
            verdicts.passed(part=part.collective(what), text=f"ended after {final.duration_s:.0f} s")


def judge_completeness(verdicts: Verdicts, nccl: Nccl, baseline: Baseline) -> None:
    """Each launch ended by itself, with every GPU and the size that was asked for."""
    for what in ALL:
        final = nccl.final(what)
        faulty = next((each for each in nccl.of(what) if each.ending == "faulty"), None)
        if faulty:
            remedy = "see the kernel log for the GPU's Xid; restart the node and measure it again"
            verdicts.found(Verdict.FAIL, part=part.collective(what), text=_fault(faulty), action=remedy)
        elif final.ending != "whole":
            verdicts.unknown(part=part.collective(what), quantity="result", reason=final.why, action=final.next_step)
        else:
            verdicts.passed(part=part.collective(what), text=f"{final.gpus} GPUs, up to {final.size_bytes} bytes")
    whole = next((each for each in nccl.all if each.ending == "whole"), None)
    if whole and (limit := baseline.find_number("gpu.count")):
        verdicts.at_least(
            part=part.host("GPUs"),
            quantity="in the collectives",
            observed=whole.gpus,
            limit=limit,
            action="see gpu.count and gpu.lost",
        )


def judge_bandwidth(
    verdicts: Verdicts, nccl: Nccl, whats: tuple[str, ...], *, baseline: Baseline, peers: NodePeers, remedy: str
) -> None:
    """The bus bandwidth of some launches; each that gave none is an error of its own."""
    for what in whats:
        if not nccl.named(what):
            final = nccl.final(what)
            verdicts.unknown(
                part=part.collective(what), quantity="bus bandwidth", reason=final.why, action=final.next_step
            )
    metrics = nccl.named(*whats)
    if metrics:
        metric_findings.judge(verdicts, metrics, baseline=baseline, peers=peers, remedy=remedy)


def lost_nvls(nccl: Nccl, baseline: Baseline) -> bool:
    """Whether the platform sums in its switches and this node does not: that is another fault than a slow link.

    all_reduce is then what Ring is, within what two runs of the same thing differ by.
    """
    gain, steady = nccl.over_ring, baseline.find_number(_STEADY_KEY)
    if not has_nvls(nccl, baseline) or isinstance(gain, Unknown) or not steady:
        return False
    return abs(gain - 1.0) <= _share(steady)


def has_nvls(nccl: Nccl, baseline: Baseline) -> bool:
    """Whether NCCL uses NVLS on this platform, with as many GPUs as took part."""
    limit, entry = baseline.find(_NVLS_KEY), baseline.entry(_NVLS_KEY)
    holds = entry is None or not difference(entry.parameters, nccl.final(ALL_REDUCE).conditions)
    return limit is not None and limit.value is True and holds


def judge_nvls(verdicts: Verdicts, nccl: Nccl, baseline: Baseline) -> None:
    """all_reduce as NCCL chooses it, against Ring.

    Raises:
        NotJudged: the platform has no NVLS, or not with this number of GPUs, or there is no margin.
    """
    limit, steady, gain = baseline.limit(_NVLS_KEY), baseline.number(_STEADY_KEY), nccl.over_ring
    if limit.value is not True:
        verdicts.skip("the platform has no NVLS")
    if isinstance(gain, Unknown):
        verdicts.unknown(part=part.collective("NVLS"), quantity="all_reduce against Ring", reason=gain)
        return
    if not has_nvls(nccl, baseline):
        verdicts.skip(f"NVLS is not used with {nccl.final(ALL_REDUCE).gpus} GPUs")
    times = f"all_reduce is {gain:.2f} times as fast as with NCCL_ALGO=Ring"
    if gain > 1.0 + _share(steady):
        verdicts.passed(part=part.collective("NVLS"), text=times, quantity=_GAIN, observed=round(gain, 3))
        return
    told = nccl.final(ALL_REDUCE).nvls_there
    said = "" if isinstance(told, Unknown) or told else "; NCCL says that NVLS multicast is not available"
    state = "not in use" if lost_nvls(nccl, baseline) else "slower than doing without it"
    verdicts.found(
        Verdict.FAIL,
        part=part.collective("NVLS"),
        text=f"{state}: {times}, expected more than {steady.value} % over it{said} ({limit.source})",
        action="look for NCCL_NVLS_ENABLE=0 in /etc/nccl.conf, then at nvidia-fabricmanager and the fabric state",
        quantity=_GAIN,
        observed=round(gain, 3),
        limit=limit,
    )


def _share(percent: NumberLimit) -> float:
    return float(percent.value) / 100.0 if isinstance(percent.value, (int, float)) else 0.0


def _tests(nccl: Nccl, what: str) -> list[NcclTest]:
    return [outcome.test for outcome in nccl.of(what) if outcome.test]


def _nvls_alone_hangs(nccl: Nccl, hung: Outcome) -> bool:
    return hung.what == ALL_REDUCE and nccl.final(RING).ending == "whole"


def _hang(nccl: Nccl, hung: Outcome) -> str:
    stuck = f"; it cannot be killed: {hung.stuck[0]}" if hung.stuck else ""
    ring = "; with NCCL_ALGO=Ring it ends: NVLS hangs" if _nvls_alone_hangs(nccl, hung) else ""
    return f"hangs: {hung.why}{ring}{stuck}"


def _after_hang(nccl: Nccl, hung: Outcome) -> str:
    if hung.stuck:
        return "restart the node; see the kernel log for what the driver waits for"
    if _nvls_alone_hangs(nccl, hung):
        return "restart nvidia-fabricmanager with no job on the node; it must be of the driver's version"
    return f"{_FABRIC}; restart the node and measure it again"


def _fault(faulty: Outcome) -> str:
    fault = faulty.test.faults[0] if faulty.test else None
    words = {"cuda": "CUDA failed: ", "nccl": "NCCL failed: ", "timeout": "nccl-tests gave up: ", "gpus": ""}
    return f"{words[fault.kind] if fault else ''}{faulty.why}"
