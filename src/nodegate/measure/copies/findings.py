"""Findings of the copies: host copies in the words of PCIe, pairs of GPUs and which of the two is slow."""

from collections.abc import Iterable, Sequence
from typing import NoReturn

from nodegate.baseline.baseline import Baseline
from nodegate.measure.copies.document import ALONE, BY_KERNELS, INSIDE, Data, GpuCopies, Pair, Tested
from nodegate.measure.copies.result import DEVICE, KERNELS, PEER, Copies
from nodegate.measure.own_program import facts_by_index
from nodegate.metric_names import words
from nodegate.numbers.assessments import assessments, right
from nodegate.numbers.metric_findings import add_proof, finding_of
from nodegate.numbers.peers import NodePeers
from nodegate.probe.gpu import Gpus
from nodegate.records import part
from nodegate.records.finding import OWN_WORD, Limit, LimitKind, NumberLimit
from nodegate.records.part import Kind, Part
from nodegate.records.verdict import Verdict
from nodegate.text import counted
from nodegate.unknown import Unknown, Why, known, unread, value_or
from nodegate.verdicts import Verdicts

AGAIN = "measure this node again; see the evidence file for what the GPU reported"
REPLACE = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
RESEAT = "power-cycle the node; if it stays, reseat the board or riser"
LOST = "drain the node; reseat board and riser, test the host's memory, then replace the board"
LOST_INSIDE = "drain the node; run field diagnostics and replace the board (RMA)"
LOST_BETWEEN = "drain the node; run field diagnostics, then replace boards or baseboard"
PATH = "look at the path between them: nvidia-smi topo -m, NVLink errors, the log of nvidia-fabricmanager"
_APART = 0.1  # from which part below the best pair on a GPU is blamed for a slow one; only words rest on it
_NOT_SEEN = Unknown(Why.FAILED, "the probe did not see it")
_INSIDE = {INSIDE, *BY_KERNELS}
_CORRUPT = "silent data corruption"
_WORDS, _SHARE = "wrong words", "memory tested"
_TOLD = 2  # wrong words in a line
_FEW_BITS = 4
_FREE = "free the GPU's memory, then measure this node again"
COMPLETE = "copies.complete"


def took_part(gpu: GpuCopies, verdicts: Verdicts) -> None:
    """Whether a GPU made all its copies."""
    done = ", ".join(dict.fromkeys(_way(each.what) for each in gpu.copies))
    if stopped((gpu,)):
        message = f"stopped responding during copies (after {done}): {gpu.error}"
        verdicts.found(Verdict.FAIL, part=gpu.part, text=message, action=REPLACE, quantity="copies", observed=False)
    elif gpu.error or not gpu.copies:
        verdicts.unknown(part=gpu.part, quantity="copy rates", reason=gpu.error or "it made no copy", action=AGAIN)
    else:
        apart = f"; its host memory may be on another NUMA node ({gpu.unbound})" if gpu.unbound else ""
        verdicts.passed(part=gpu.part, text=f"copied {done}{apart}")


def stopped(several: Iterable[GpuCopies]) -> bool:
    """Whether a GPU stopped responding between its copies: a fault of its own, which copies.complete reports."""
    return any(each.error and each.copies for each in several)


def not_measured(several: Sequence[GpuCopies], quantity: str, verdicts: Verdicts, *, otherwise: str) -> None:
    """What the copies did not give of a GPU; `otherwise` is the reason where it gave none."""
    verdicts.unknown(
        part=several[0].part,
        quantity=quantity,
        reason=next((each.error for each in several if each.error), otherwise),
        action=AGAIN,
        blocked_by=COMPLETE if stopped(several) else "",
    )


def missing(copies: Copies, name: str, verdicts: Verdicts) -> None:
    """An `error` for each GPU that has no number of this name."""
    have = {each.device for each in copies.named(name)}
    for several in copies.gpus.values():
        if several[0].device not in have:
            quantity = words(name) if name in {DEVICE, *KERNELS} else f"copy rate ({words(name)})"
            not_measured(several, quantity, verdicts, otherwise="it was not reached")


def judge_link(when: str, copies: Copies, gpus: Gpus, verdicts: Verdicts) -> None:
    """The link of each GPU during its host copies, ALONE or AT_ONCE, against the device's own word."""
    seen = facts_by_index(gpus, copies.gpus)
    suffix = "" if when == ALONE else " of all GPUs at once"
    for index, several in copies.gpus.items():
        gpu, facts = several[-1], seen.get(index)
        link = gpu.links[when]
        for reading, code, own, unit, source in (
            (link.gen, "generation", facts.link_gen_max if facts else _NOT_SEEN, "", "what the GPU and slot support"),
            (link.width, "lanes", facts.link_width if facts else _NOT_SEEN, "lanes", "before the copies"),
        ):
            verdicts.at_least(
                part=gpu.part,
                quantity=f"PCIe {'link width' if unit else code} during copies{suffix}",
                observed=reading if isinstance(reading, Unknown) else reading[1],
                limit=own if isinstance(own, Unknown) else Limit(own, unit, source, kind=LimitKind.DEVICE),
                action=RESEAT,
                absent=Verdict.SKIP,
                code=code,
            )


def end_without_peers(baseline: Baseline, verdicts: Verdicts) -> NoReturn:
    """End the check where no GPU may reach another: by design of cards that no NVLink joins."""
    if joined := baseline.find_number("nvlink.count"):
        verdicts.not_done(f"no peer access between GPUs that NVLink joins ({joined.source}): see nvlink.peer_access")
    verdicts.by_design("no peer access between the GPUs: copies are staged through host memory", witness=OWN_WORD)


def judge_peers(copies: Copies, baseline: Baseline, peers: NodePeers, verdicts: Verdicts) -> None:
    """The lowest pair of each GPU, with the pair's name and whether the GPU or its partner is the slow one."""
    for metric, found in assessments(copies.named(PEER), baseline=baseline, peers=peers):
        named, blame = "", RESEAT
        if metric.device:  # else the median of all
            pair, blame = lowest_pair(copies, int(metric.device.removeprefix("GPU ")))
            named = f"GPU {pair[0]} to GPU {pair[1]}"
        verdicts.add(finding_of(metric, found, remedy=blame, quantity=named))
        add_proof(verdicts, metric, found)


def lowest_pair(copies: Copies, index: int) -> tuple[tuple[int, int], str]:
    """The slowest pair of a GPU, and where to look: a GPU whose best pair is slow too is at fault itself."""
    rates = {pair: rate for pair in copies.pairs if (rate := copies.best(pair)) is not None}
    pair = min((each for each in rates if index in each), key=lambda each: rates[each])
    top = max(rates.values())
    best = {end: max(rate for each, rate in rates.items() if end in each) for end in pair}
    slow = [end for end in pair if best[end] - rates[pair] < top - best[end]]
    if len(slow) != 1 or top - rates[pair] < _APART * top:
        return pair, PATH
    most = f"{best[slow[0]]:.4g} GB/s"
    return pair, f"GPU {slow[0]} gives no partner more than {most}: look at its NVLinks first; {RESEAT}"


def judge_reach(copies: Copies, baseline: Baseline, verdicts: Verdicts) -> None:
    """Pairs that failed, were not measured, or go through the host where the platform joins its GPUs."""
    joined = right(baseline, PEER) is not None
    for (source, target), several in copies.pairs.items():
        whose = Part(Kind.NVLINK, f"to GPU {target}", of=part.gpu(source))
        if not all(each.error for each in several):
            if joined and not any(each.direct for each in several):
                message = "no direct copies: data goes through the host's memory"
                verdicts.found(Verdict.FAIL, part=whose, text=message, action=PATH, quantity="direct", observed=False)
        elif any(each.begun for each in several):
            message = f"copy failed: {several[-1].error}"
            verdicts.found(Verdict.FAIL, part=whose, text=message, action=PATH, quantity="copy", observed=False)
        else:
            verdicts.unknown(part=whose, quantity="copy rate", reason=several[-1].error, action=AGAIN)


def judge_data(copies: Copies, verdicts: Verdicts) -> None:
    """What arrived, of every copy of every attempt: one wrong word in one of them is a fault."""
    for several in copies.gpus.values():
        compared = [data for gpu in several for data in gpu.data]
        bad = [data for data in compared if isinstance(data.wrong_words, Unknown) or data.wrong_words]
        for data in bad:
            _wrong(several[0].part, data, verdicts)
        if not compared:
            not_measured(several, "comparison of copied data", verdicts, otherwise="nothing was compared")
        elif not bad:
            sizes = known(data.bytes for data in compared)
            most = f"{max(sizes) / 2**20:g} MiB" if sizes else "unknown size"
            size = f"up to {most}" if sizes and min(sizes) < max(sizes) else most
            message = f"{len(compared)} copies of {size} compared, every word correct"
            verdicts.passed(part=several[0].part, text=message)
    pairs = [pair for attempts in copies.pairs.values() for pair in attempts if not pair.error]
    for pair in pairs:
        _between(pair, verdicts)
    if pairs and all(pair.wrong_words == 0 for pair in pairs):
        verdicts.passed(part=part.collective("GPU to GPU"), text=f"{len(pairs)} copies compared, every word correct")


def _wrong(whose: Part, data: Data, verdicts: Verdicts) -> None:
    how = f" by the {data.what} kernel" if data.what in BY_KERNELS else ""
    way = _way(data.what) + how if data.when == ALONE else f"{_way(data.what)} with all GPUs at once"
    if isinstance(data.wrong_words, Unknown):
        quantity = f"comparison of copied data ({way})"
        verdicts.unknown(part=whose, quantity=quantity, reason=data.wrong_words, action=AGAIN)
        return
    message = _corrupt(f"copied {way}", data.wrong_words, data.first_word, value_or(data.bytes, 0))
    remedy = LOST_INSIDE if data.what in _INSIDE else LOST
    verdicts.found(Verdict.FAIL, part=whose, text=message, action=remedy, quantity=_WORDS, observed=data.wrong_words)


def _between(pair: Pair, verdicts: Verdicts) -> None:
    whose = Part(Kind.NVLINK, f"to GPU {pair.target}", of=part.gpu(pair.source))
    if isinstance(pair.wrong_words, Unknown):
        verdicts.unknown(part=whose, quantity="comparison of copied data", reason=pair.wrong_words, action=AGAIN)
    elif pair.wrong_words:
        message = _corrupt("copied", pair.wrong_words, pair.first_word, value_or(pair.bytes, 0))
        count = pair.wrong_words
        verdicts.found(Verdict.FAIL, part=whose, text=message, action=LOST_BETWEEN, quantity=_WORDS, observed=count)


def _way(what: str) -> str:
    return "inside the GPU" if what in _INSIDE else what.replace("_", " ") or "?"


def _corrupt(copied: str, count: int, first: int | None, size: int) -> str:
    where = "" if first is None else f" (first at byte {4 * first})"
    return f"{counted(count, 'wrong word')} of {size // 4} {copied}{where}: {_CORRUPT}"


def judge_patterns(copies: Copies, least: NumberLimit, verdicts: Verdicts) -> None:
    """Every attempt on every GPU: a wrong word in one of them is a fault, an unfinished test no proof."""
    for several in copies.gpus.values():
        found = [gpu.memory for gpu in several if gpu.memory is not None]
        if not found:
            not_measured(several, "test of its memory", verdicts, otherwise="its memory was not tested")
        bad = [each for each in found if not isinstance(each.wrong_words, Unknown) and each.wrong_words]
        for each in bad:
            _wrong_in_memory(several[0].part, each, verdicts)
        if found and not bad:
            _right(several[0].part, found, least, verdicts)


def _wrong_in_memory(whose: Part, tested: Tested, verdicts: Verdicts) -> None:
    count, bits = value_or(tested.wrong_words, 0), value_or(tested.bits, 0)
    places = [str(bit) for bit in range(32) if bits >> bit & 1]
    which = ""
    if 0 < len(places) <= _FEW_BITS:  # one line of data, or one cell
        which = f" (bit{'' if len(places) == 1 else 's'} {', '.join(places)})"
    first = "; ".join(str(each) for each in tested.wrong[:_TOLD])
    text = f"{count} wrong word{'' if count == 1 else 's'} in its memory{which}: {first}: {_CORRUPT}"
    verdicts.found(Verdict.FAIL, part=whose, text=text, action=LOST_INSIDE, quantity=_WORDS, observed=count)


def _right(whose: Part, found: list[Tested], least: NumberLimit, verdicts: Verdicts) -> None:
    """No wrong word: then it has to be all of the memory, and all patterns."""
    best = max(found, key=lambda each: each.passes if isinstance(each.passes, int) else -1)
    read = (best.bytes, best.total, best.passes, best.planned, best.wrong_words)
    if (unknown := unread(*read)) is not None:
        verdicts.unknown(part=whose, quantity=_WORDS, reason=unknown, action=AGAIN)
        return
    size, total, passes, planned, _ = known(read)
    share = round(100 * size / total, 1) if total else 0.0
    if passes < planned or not planned:
        reason = f"only {passes} of {planned} patterns were written and checked in time"
        verdicts.unknown(part=whose, quantity=_WORDS, reason=reason, action=AGAIN)
    elif share < least.value:
        reason = f"{share:g} % of its memory could be tested, at least {least.value:g} % should ({least.source})"
        verdicts.unknown(part=whose, quantity=_SHARE, reason=reason, action=_FREE)
    else:
        gib = f"{size / 2**30:.4g} GiB, {share:g} % of its memory"
        verdicts.passed(part=whose, text=f"{passes} patterns written to {gib}, and read back correctly")
