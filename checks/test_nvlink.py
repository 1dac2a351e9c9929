"""NVLink: every link of every GPU is up, at full speed, and has needed no repair."""

import pytest

from nodegate.api import Baseline, Gpus, Limit, LimitKind, Unknown, Verdict, Verdicts, Why, part
from nodegate.records.finding import OWN_WORD
from nodegate.subjects.gpu import answering
from nodegate.subjects.nvlink import (
    closed_to,
    errors,
    judge_rates,
    judge_recoveries,
    linked,
    links_down,
    links_up,
    slow,
    speeds_mbps,
    unread_peers,
    whole_bridges,
)

pytestmark = pytest.mark.tier("bootcheck")

_BRIDGE = "check whether this card should have a bridge; install it, or set nvlink.count for the platform"
_PEERS = "look at fabric.manager and nvlink.links, and at the driver's options (NVreg_RegistryDwords); then reboot"
_ACTION = "read the kernel log for SXid and Xid 74 of this link; power-cycle the node; if it stays, call the vendor"
# A bit error rate of NVLink 5: above the first limit it warns, above the second it fails.
_RATES = {
    "effective": ("nvlink.effective_ber_suspect", "nvlink.effective_ber_max"),
    "symbol": ("nvlink.symbol_ber_max", "nvlink.symbol_ber_max"),
}


def test_links(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every NVLink of every GPU is up, and there are as many as the platform has. (F13)

    One link down takes its share of the bandwidth from every collective, or stops NVLS at all. PCIe cards list all
    their links though no bridge may be fitted: where the platform gives no number, none up on any card is no fault, and
    a bridge has all its links up or none (`nvlink.per_bridge`).
    """
    count, bridge = baseline.find_number("nvlink.count"), baseline.find_number("nvlink.per_bridge")
    found = list(linked(answering(gpus, verdicts), count, verdicts))
    most = max((links_up(links) for _, links in found), default=0)
    for gpu, links in found:
        down, unread = links_down(links)
        for link, reason in unread:
            verdicts.unknown(part=part.nvlink(gpu.part, link), quantity="its state", reason=reason)
        if not unread and not count and len(down) == len(links):
            text = f"no NVLink is up, {most} on another GPU of this node" if most else "no NVLink is up: no bridge"
            if most:
                verdicts.found(Verdict.WARN, part=gpu.part, text=text, action=_BRIDGE, code="no bridge")
            else:
                verdicts.lacking(part=gpu.part, text=text)
        elif not unread:
            verdicts.equal(
                part=gpu.part,
                quantity="active NVLinks",
                observed=len(links) - len(down),
                expected=count or whole_bridges(links, bridge),
                action=_ACTION,
                note=f"down: NVLink {', '.join(map(str, down))}" if down else "",
            )


def test_speed(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every NVLink that is up runs at the platform's speed, or as fast as the fastest of its node. (F13, F09)

    A link that trained slower still works, and all traffic through it waits.
    """
    answers = answering(gpus, verdicts)
    count = baseline.find_number("nvlink.count")
    pairs = list(linked(answers, count, verdicts))
    fastest = max((speed for _, links in pairs for speed in speeds_mbps(links)), default=0)
    limit = baseline.find_number("nvlink.speed_mbps") or Limit(
        fastest, "MB/s", "the fastest NVLink of this node", kind=LimitKind.NODE
    )
    for gpu, links in pairs:
        for link in slow(links, limit):
            verdicts.at_least(
                part=part.nvlink(gpu.part, link.link),
                quantity="link speed",
                observed=link.speed_mbps,
                limit=limit,
                action=_ACTION,
            )
        good = len(speeds_mbps(links)) - len(slow(links, limit))
        if good > 0:
            verdicts.passed(part=gpu.part, text=f"{good} NVLinks at {limit.value} MB/s or more")
        elif not slow(links, limit):
            text = "no NVLink is up: see nvlink.links"
            (verdicts.left_out if count else verdicts.lacking)(part=gpu.part, text=text)


def test_peer_access(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Each two GPUs that NVLink joins may read and write each other's memory, as the driver says. (F13)

    Without it NCCL copies through the host, a tenth as fast, and NVSHMEM and CUDA IPC fail. On PCIe cards it is up to
    the host and not judged; MIG has none by design. Source: nvml.h, nvmlDeviceGetP2PStatus (nvidia-smi topo -p2p rw).
    """
    count, answers = baseline.find_number("nvlink.count"), answering(gpus, verdicts)
    if count is None or count.value == 0:
        verdicts.not_demanded("NVLink does not join all GPUs of this platform: peer access is up to the host")
    if len(gpus.devices) == 1 or any(gpu.mig_enabled is True for gpu in answers):
        verdicts.by_design("one GPU alone, or MIG, has no peers", witness=OWN_WORD)
    lost = "gpu.lost" if len(answers) < len(gpus.devices) else ""
    if isinstance(gpus.peers, Unknown):
        if gpus.peers.why is Why.MISSING:
            verdicts.not_done("the probe that recorded this did not ask for peer access")
        absent = Verdict.ERROR if gpus.source == "nvml" else Verdict.NOT_JUDGED
        verdicts.unknown(part=part.NODE, quantity="peer access", reason=gpus.peers, absent=absent, blocked_by=lost)
        return
    for gpu in answers:
        bad = closed_to(gpu, answers, gpus.peers)
        if unread := unread_peers(gpu, answers, gpus.peers):
            reason = f"the driver says nothing of {', '.join(f'GPU {index}' for index in unread)}"
            verdicts.unknown(part=gpu.part, quantity="peer access", reason=reason, blocked_by=lost)
            if not bad:
                continue
        verdicts.found(
            Verdict.FAIL if bad else Verdict.PASS,
            part=gpu.part,
            text=f"no peer access to {'; '.join(bad)}" if bad else "peer access to every other GPU",
            action=_PEERS,
            quantity="peer access",
            observed=not bad,
        )


def test_bit_errors(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The bit error rates of NVLink 5 are those of good links: nearly none is left after error correction. (F13)

    NVLink 5 counts in fields of its own. Errors that are corrected are normal; what is left makes links be recovered or
    lost. Older links count replays and CRC errors instead: see nvlink.errors. Source: DCGM; Google cluster-toolkit.
    """
    count = baseline.find_number("nvlink.count")
    limits = {name: [baseline.number(key) for key in keys] for name, keys in _RATES.items()}
    for gpu, links in linked(answering(gpus, verdicts), count, verdicts):
        five = gpu.nvlink5
        if not isinstance(five, Unknown):
            judge_rates(gpu, five, limits, _ACTION, verdicts)
        elif errors(links).read:
            verdicts.lacking(part=gpu.part, text="its NVLinks count replays: see nvlink.errors")
        elif five.is_absent:
            silent = verdicts.left_out if count else verdicts.lacking
            silent(part=gpu.part, text="this driver does not report bit error rates of NVLinks")
        else:
            verdicts.unknown(part=gpu.part, quantity="the error counters of its NVLinks", reason=five)


@pytest.mark.tier("nightly")
def test_errors(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No NVLink had to be recovered or had to send data again since the driver was loaded. (F13)

    A count since load has no time, so it warns; an increase during a test is what fails (DCGM). CRC errors alone are
    corrected on the way and matter from 100 a second on (DCGM): they are shown, and judged only as a rate. NVLink 5
    counts recoveries of links in place of replays.
    """
    count = baseline.find_number("nvlink.count")
    for gpu, links in linked(answering(gpus, verdicts), count, verdicts):
        seen = errors(links)
        for kind, by_link in seen.bad.items():
            where = ", ".join(f"{count} on link {link}" for link, count in by_link)
            verdicts.found(
                Verdict.WARN,
                part=gpu.part,
                text=f"NVLink {kind}s since driver load: {where}",
                action=_ACTION,
                quantity=f"NVLink {kind}s since driver load",
                observed=sum(count for _, count in by_link),
                code=kind,
            )
        for link, reason in seen.unread:
            verdicts.unknown(part=part.nvlink(gpu.part, link), quantity="an error counter", reason=reason)
        if not seen.bad and not seen.unread and seen.read:
            text = f"no replay and no recovery on {seen.read} NVLinks, {seen.crc} CRC errors corrected"
            verdicts.passed(part=gpu.part, text=text)
        if not isinstance(gpu.nvlink5, Unknown):
            judge_recoveries(gpu, gpu.nvlink5, _ACTION, verdicts)
        elif not seen.read:
            silent = verdicts.left_out if count else verdicts.lacking  # NVLinks have errors that somebody must count
            silent(part=gpu.part, text="this driver does not report NVLink errors")
