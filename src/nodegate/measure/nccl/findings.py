"""Findings of NCCL inside a node: one for each launch, whatever became of it."""

from nodegate.baseline.baseline import Baseline
from nodegate.baseline.parameters import difference
from nodegate.measure.nccl.launches import ALL_REDUCE, LAUNCHES, RING
from nodegate.measure.nccl.result import Nccl, Outcome
from nodegate.numbers import metric_findings
from nodegate.numbers.peers import NodePeers
from nodegate.probe.gpu import Gpus
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Limit, NumberLimit
from nodegate.records.part import Part
from nodegate.records.verdict import Verdict
from nodegate.text import counted
from nodegate.tools.nccl_tests import NcclTest
from nodegate.unknown import Unknown
from nodegate.verdicts import Verdicts

ALL = tuple(launch.what for launch in LAUNCHES)
OTHERS = tuple(what for what in ALL if what != ALL_REDUCE)
_FABRIC = "look at nvidia-fabricmanager and its log, at NVLink errors and SXid lines"
_NVLS_KEY = "nccl.nvls"
_STEADY_KEY = "measured.steady_percent"
_GAIN = "speed of all_reduce over Ring"
CORRUPT = "silent data corruption"
_FAULTS = {"cuda": "CUDA failed: ", "nccl": "NCCL failed: ", "timeout": "nccl-tests gave up: "}


def judge_data(verdicts: Verdicts, nccl: Nccl) -> None:
    """Wrong data once is wrong data: every attempt counts."""
    for what in ALL:
        corrupt = [outcome.test for outcome in nccl.of(what) if outcome.test and outcome.test.corrupt]
        final = nccl.final(what)
        if corrupt:
            sizes = ", ".join(str(row.size_bytes) for row in corrupt[0].rows if any(row.wrong_counts))
            where = f" at {sizes} bytes" if sizes else ""
            verdicts.found(
                Verdict.FAIL,
                part=part.collective(what),
                text=f"{counted(corrupt[0].wrong, 'wrong element')}{where}: {CORRUPT}",
                action="drain the node; burn each GPU alone to tell a GPU from the fabric between them",
                quantity="wrong elements",
                observed=corrupt[0].wrong,
            )
        elif final.ending != "whole" or final.test is None:
            _not_measured(verdicts, nccl, what, "result comparison")
        elif not final.test.checked:
            reason = "nccl-tests compared nothing"
            verdicts.unknown(part=part.collective(what), quantity="result comparison", reason=reason)
        else:
            verdicts.passed(part=part.collective(what), text=f"right at {len(final.test.rows)} sizes", observed=0)


def judge_hangs(verdicts: Verdicts, nccl: Nccl) -> None:
    """A hang in any attempt is one; a launch that was not made says nothing."""
    for what in ALL:
        hung = next((each for each in nccl.of(what) if each.ending == "hung"), None)
        final = nccl.final(what)
        if hung:
            text, action = _hang(nccl, hung)
            verdicts.found(Verdict.FAIL, part=part.collective(what), text=text, action=action)
        elif final.ending == "slow" or final.test is None:
            _not_measured(verdicts, nccl, what, "")
        else:
            verdicts.passed(part=part.collective(what), text=f"ended after {final.ran.duration_s:.0f} s")


def judge_completeness(verdicts: Verdicts, nccl: Nccl, baseline: Baseline) -> None:
    """Each launch ended by itself, with every GPU and the size that was asked for."""
    for what in ALL:
        final = nccl.final(what)
        faulty = next((each for each in nccl.of(what) if each.ending == "faulty"), None)
        if faulty:
            remedy = "see the kernel log for the GPU's Xid; restart the node and measure it again"
            begin = _FAULTS.get(faulty.test.faults[0].kind, "") if faulty.test else ""
            verdicts.found(Verdict.FAIL, part=part.collective(what), text=f"{begin}{faulty.why}", action=remedy)
        elif final.ending != "whole":
            _not_measured(verdicts, nccl, what, "result")
        else:
            plan = final.ran.plan
            verdicts.passed(part=part.collective(what), text=f"{plan.gpus} GPUs, up to {plan.size_bytes} bytes")
    whole = next((each for each in nccl.all if each.ending == "whole"), None)
    if whole and (limit := baseline.find_number("gpu.count")):
        verdicts.at_least(
            part=part.NODE,
            quantity="GPUs in the collectives",
            observed=whole.ran.plan.gpus,
            limit=limit,
            action="see the checks gpu.count and gpu.lost",
            code="gpus",
        )


def judge_devices(verdicts: Verdicts, nccl: Nccl, gpus: Gpus) -> None:
    """Every rank of each launch worked on a GPU of its own, which is one of this node."""
    for what in ALL:
        test = nccl.final(what).test
        if test is None or not test.devices:
            continue
        wrong = strange_devices(test, gpus)
        if wrong:
            reason = f"not believed: {wrong}"
            action = "look at the evidence file: the tool ran elsewhere, or in a container with other GPUs"
            verdicts.unknown(part=part.collective(what), quantity="GPUs of the launch", reason=reason, action=action)
        else:
            verdicts.passed(part=part.collective(what), text=f"{len(test.devices)} ranks, each on a GPU of this node")


def strange_devices(test: NcclTest, gpus: Gpus) -> str:
    """What the list of ranks of a launch has that the node has not; empty where they agree."""
    addresses = [each.casefold() for gpu in gpus.devices if not isinstance(each := gpu.address, Unknown)]
    names = {each.casefold() for gpu in gpus.devices if not isinstance(each := gpu.name, Unknown)}
    seen: dict[str, int] = {}
    for device in test.devices:
        bus = device.bus.casefold().removeprefix("0x")  # "1b" or "0000:1b:00"
        if bus in seen:
            return f"ranks {seen[bus]} and {device.rank} are on one GPU ({device.bus})"
        seen[bus] = device.rank
        at = [each.startswith(bus) if ":" in bus else each.split(":")[1] == bus for each in addresses]
        if at and not any(at):
            return f"rank {device.rank} is on {device.bus}, where this node has no GPU"
        if names and not any(name in device.model.casefold() or device.model.casefold() in name for name in names):
            return f"rank {device.rank} is on a {device.model}, and this node has {', '.join(sorted(names))}"
    return ""


def judge_bandwidth(
    verdicts: Verdicts, nccl: Nccl, whats: tuple[str, ...], *, baseline: Baseline, peers: NodePeers, remedy: str
) -> None:
    """The bus bandwidth of some launches; each that gave none is an error of its own."""
    for what in whats:
        if not nccl.named(what):
            _not_measured(verdicts, nccl, what, "bus bandwidth")
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
    return abs(gain - 1.0) <= steady.value / 100


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
    limit, steady, gain = baseline.switch(_NVLS_KEY), baseline.number(_STEADY_KEY), nccl.over_ring
    if not limit.value:
        verdicts.by_design("the platform has no NVLS", witness=limit.source)
    if isinstance(gain, Unknown):
        missing = [what for what in (ALL_REDUCE, RING) if not nccl.named(what)]
        for what in missing:
            _not_measured(verdicts, nccl, what, "bus bandwidth")
        if not missing:
            verdicts.unknown(part=part.collective("NVLS"), quantity=_GAIN, reason=gain)
        return
    if not has_nvls(nccl, baseline):
        verdicts.by_design(f"NVLS is not used with {nccl.final(ALL_REDUCE).ran.plan.gpus} GPUs", witness=limit.source)
    least: NumberLimit = Limit(1 + steady.value / 100, "times", limit.source, AT_LEAST, limit.kind)
    times = f"all_reduce is {gain:.2f} times as fast as with NCCL_ALGO=Ring"
    if gain > least.value:
        verdicts.passed(part=part.collective("NVLS"), text=times, quantity=_GAIN, observed=round(gain, 3), unit="times")
        return
    multicast = nccl.final(ALL_REDUCE).nvls_there
    lost = lost_nvls(nccl, baseline)
    verdicts.found(
        Verdict.FAIL,
        part=part.collective("NVLS"),
        text=f"{'not in use' if lost else 'slower than Ring'}: {times}",
        note="" if isinstance(multicast, Unknown) or multicast else "NCCL reports NVLS multicast as not available",
        action="look for NCCL_NVLS_ENABLE=0 in /etc/nccl.conf, then at nvidia-fabricmanager and the fabric state",
        quantity=_GAIN,
        observed=round(gain, 3),
        unit="times",
        limit=least,
        code="not in use" if lost else "slow",
    )


def no_version(verdicts: Verdicts, nccl: Nccl) -> bool:
    """Whether no launch came so far that NCCL could tell its version; then the finding gives their reason."""
    if any(outcome.test for outcome in nccl.all):
        return False
    _not_measured(verdicts, nccl, ALL_REDUCE, "version", whose=part.software("NCCL"))
    return True


def _not_measured(verdicts: Verdicts, nccl: Nccl, what: str, quantity: str, *, whose: Part | None = None) -> None:
    """What a launch did not give, and which check says why; none where no other says more than this one."""
    final = nccl.final(what)
    blocked_by = "nccl.complete" if final.ending == "faulty" else ""
    if final.ending == "hung" or (final.test is None and any(each.ending == "hung" for each in nccl.all)):
        blocked_by = "nccl.hang"
    verdicts.unknown(
        part=whose or part.collective(what),
        quantity=quantity,
        reason=final.why,
        action=final.next_step,
        blocked_by=blocked_by,
        lacks=final.ran.lacks,
    )


def _hang(nccl: Nccl, hung: Outcome) -> tuple[str, str]:
    text, action = f"hung: {hung.why}", f"{_FABRIC}; restart the node and measure it again"
    if hung.what == ALL_REDUCE and nccl.final(RING).ending == "whole":
        text += "; it ends with NCCL_ALGO=Ring, so NVLS hangs"
        action = "restart nvidia-fabricmanager with no job on the node; it must be of the driver's version"
    if hung.ran.stuck:
        text += f"; it cannot be killed: {hung.ran.stuck[0]}"
        action = "restart the node; see the kernel log for what the driver waits for"
    return text, action
