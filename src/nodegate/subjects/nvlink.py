"""The NVLinks of a GPU in the shapes that checks judge: which are down, how fast, with which errors."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodegate.probe.gpu import OK, Gpu, NvLink, NvLink5, PeerAccess
from nodegate.records.finding import Limit, LimitKind, NumberLimit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Known, Unknown
from nodegate.verdicts import Verdicts

SATURATED = frozenset({(1 << 32) - 1, (1 << 64) - 1})  # all ones: a counter at its end, or none at all


@dataclass(frozen=True)
class LinkErrors:
    """The errors of a GPU's links: by kind, then link and count, in `bad`; `read` counts the links that were read."""

    bad: Mapping[str, list[tuple[int, int]]]
    unread: tuple[tuple[int, Unknown], ...]
    read: int
    crc: int


def linked(
    gpus: Iterable[Gpu], count: NumberLimit | None, verdicts: Verdicts
) -> Iterator[tuple[Gpu, tuple[NvLink, ...]]]:
    """The GPUs that have NVLinks, with them; for the others a `skip` or `error` finding says why they are left out.

    Raises:
        NotApplicable: the platform has no NVLink (`nvlink.count` is 0).
    """
    if count is not None and count.value == 0:
        verdicts.by_design("this platform has no NVLink", witness=count.source)
    for gpu in gpus:
        if gpu.mig_enabled is True:
            text = "MIG is on: its instances do not use NVLink"
            verdicts.lacking(part=gpu.part, text=text, witness="gpu.mig: it judges whether that is right")
        elif not isinstance(gpu.nvlinks, Unknown) and (gpu.nvlinks or count is not None):
            yield gpu, gpu.nvlinks
        elif not isinstance(gpu.nvlinks, Unknown):
            verdicts.lacking(part=gpu.part, text="has no NVLink")
        else:
            absent = Verdict.SKIP if count is None else Verdict.ERROR
            verdicts.unknown(part=gpu.part, quantity="the state of its NVLinks", reason=gpu.nvlinks, absent=absent)


def links_down(links: Iterable[NvLink]) -> tuple[list[int], list[tuple[int, Unknown]]]:
    """The numbers of the links that are down, and those whose state could not be read, with the reason."""
    states = [(link.link, link.up) for link in links]
    down = [number for number, up in states if up is False]
    return down, [(number, up) for number, up in states if isinstance(up, Unknown)]


def links_up(links: Iterable[NvLink]) -> int:
    """How many links are up."""
    return sum(link.up is True for link in links)


def whole_bridges(links: Sequence[NvLink], bridge: NumberLimit | None) -> NumberLimit:
    """How many links should be up if some are: those of the bridges that are fitted, or all that the GPU lists."""
    if bridge is None:
        return Limit(len(links), "links", "the links that this GPU has", kind=LimitKind.DEVICE)
    each = int(bridge.value)
    whole, source = -(-links_up(links) // each) * each, f"{each} of each bridge; {bridge.source}"
    return Limit(whole, "links", source, kind=bridge.kind)


def speeds_mbps(links: Iterable[NvLink]) -> list[int]:
    """The speeds of the links that are up, where they are reported."""
    return [link.speed_mbps for link in links if link.up is True and isinstance(link.speed_mbps, int)]


def slow(links: Iterable[NvLink], limit: NumberLimit) -> list[NvLink]:
    """The links that are up and not proven fast: below the limit, or of unknown speed."""
    up = (link for link in links if link.up is True)
    return [link for link in up if not (isinstance(link.speed_mbps, int) and link.speed_mbps >= limit.value)]


def errors(links: Iterable[NvLink]) -> LinkErrors:
    """Replay and recovery counts by link; a counter that stands at its end says nothing and is left out."""
    found = list(links)
    counted = {
        "replay": _counted((link.link, link.replay_errors) for link in found),
        "recovery event": _counted((link.link, link.recovery_errors) for link in found),
    }
    readings = [(link, reading) for link in found for reading in (link.replay_errors, link.recovery_errors)]
    read = sum(_says(link.replay_errors) or _says(link.recovery_errors) for link in found)
    absent = {link.link for link in found if link.up is not True or not read}  # these may be silent
    unknown = ((link.link, why) for link, why in readings if isinstance(why, Unknown))
    unread = {number: why for number, why in unknown if not (why.is_absent and number in absent)}
    crc = sum(link.crc_errors for link in found if isinstance(link.crc_errors, int) and _says(link.crc_errors))
    bad = {kind: by_link for kind, by_link in counted.items() if by_link}
    return LinkErrors(bad, tuple(unread.items()), read, crc)


def _counted(readings: Iterable[tuple[int, Known[int]]]) -> list[tuple[int, int]]:
    return [(link, count) for link, count in readings if isinstance(count, int) and _says(count) and count > 0]


def _says(reading: Known[int]) -> bool:
    return not isinstance(reading, Unknown) and reading not in SATURATED


def judge_recoveries(gpu: Gpu, five: NvLink5, action: str, verdicts: Verdicts) -> None:
    """How often a link of NVLink 5 was lost since the driver was loaded, with and without success."""
    for quantity, count in (("links recovered", five.recovered), ("recoveries that failed", five.failed_recoveries)):
        verdicts.at_most(
            part=gpu.part,
            quantity=f"NVLink {quantity} since driver load",
            observed=count,
            limit=Limit(0, "", "none on a healthy GPU"),
            action=action,
            otherwise=Verdict.WARN,
            code=quantity,
        )


def judge_rates(
    gpu: Gpu, five: NvLink5, limits: Mapping[str, Sequence[NumberLimit]], action: str, verdicts: Verdicts
) -> None:
    """The bit error rates of NVLink 5 against both limits of each: above the first it warns, above the second fails."""
    for name, rate in (("effective", five.effective_ber), ("symbol", five.symbol_ber)):
        suspect, most = limits[name]
        bad = not isinstance(rate, Unknown) and rate > most.value
        verdicts.at_most(
            part=gpu.part,
            quantity=f"{name} bit error rate of NVLink",
            observed=rate,
            limit=most if bad else suspect,
            action=action,
            otherwise=Verdict.FAIL if bad else Verdict.WARN,
            code=f"{name} bit errors",
        )


def unread_peers(gpu: Gpu, others: Iterable[Gpu], peers: Iterable[PeerAccess]) -> list[int]:
    """The GPUs of which nothing says whether this one may use their memory."""
    told = {index for pair in peers if gpu.index in (pair.first, pair.second) for index in (pair.first, pair.second)}
    return sorted({other.index for other in others} - told - {gpu.index})


def closed_to(gpu: Gpu, others: Iterable[Gpu], peers: Iterable[PeerAccess]) -> list[str]:
    """The GPUs whose memory this one may not read or write, by why: "GPU 3, GPU 5: disabled by ..."."""
    among = {other.index for other in others} - {gpu.index}
    why: defaultdict[str, list[int]] = defaultdict(list)
    for pair in peers:
        other = pair.second if pair.first == gpu.index else pair.first if pair.second == gpu.index else -1
        said = next((word for word in (pair.read, pair.write) if word != OK), "")
        if other in among and said:
            why[said].append(other)
    return [f"{', '.join(f'GPU {index}' for index in sorted(found))}: {said}" for said, found in why.items()]
