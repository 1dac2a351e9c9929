"""The words of a report: its title, the plain sentences of its verdict, and what each verdict word means."""

from collections.abc import Iterator

from nodegate.profile import Profile
from nodegate.records.cause import NOT_JUDGED
from nodegate.records.verdict import GOOD, NodeVerdict
from nodegate.report.claim_rows import unproven_count
from nodegate.report.model import Report, gpu_counts, node_counts
from nodegate.report.not_judged import unjudged_checks
from nodegate.words.catalogue import known, number_of, phrase, say, term

_TITLES = {
    "delivery": known("Acceptance report"),
    "nightly": known("Nightly re-validation"),
    "bootcheck": known("Boot check"),
    "troubleshoot": known("Troubleshooting report"),
}

CLAIM_WORDS = (
    (known("proven"), "", known("Every part was judged by an absolute limit and kept it, in this run.")),
    (known("refuted"), "", known("At least one of its checks failed.")),
    (known("not-proven"), "", known("Not measured, or there is no limit: the reason is given.")),
)

CHECK_WORDS = (
    (known("pass"), "·", known("Measured, and within limits. A pass needs a complete measurement.")),
    (known("warn"), "W", known("Measured, and worth a look; it does not reject the node.")),
    (known("fail"), "F", known("Measured, and out of limits. It rejects the node unless a waiver covers it.")),
    (known("not-judged"), "N", known("Measured, but there is no limit: neither pass nor fail.")),
    (known("error"), "E", known("Could not be measured: missing tool, timeout, insufficient rights. Never a pass.")),
    (known("skip"), "–", known("Does not apply here or was not requested; the reason is given.")),  # noqa: RUF001 - the cell's sign
)

NODE_WORDS = (
    (known("accepted"), "·", known("Nothing failed, and every claim of the profile is proven.")),
    (known("accepted-with-waivers"), "A", known("Every fail is covered by a waiver with an owner and an expiry.")),
    (known("accepted-with-gaps"), "G", known("What is not proven is signed for, with an owner and an expiry.")),
    (known("rejected"), "R", known("At least one fail.")),
    (known("incomplete"), "I", known("No fail, but something could not be measured, or a claim is not proven.")),
    (known("unreachable"), "U", known("The node could not be reached, or refused the login.")),
    (known("not-judged"), "N", known("No check gave a verdict, so nothing is known.")),
)

_REST = (
    (NodeVerdict.REJECTED, known("rejected")),
    (NodeVerdict.INCOMPLETE, known("incomplete: something could not be measured, or a claim is not proven")),
    (NodeVerdict.UNREACHABLE, known("not reachable")),
    (NodeVerdict.NOT_JUDGED, known("not judged, because no check gave a verdict")),
)
NODE_LETTER = {word: sign for word, sign, _ in NODE_WORDS}


def title(profile: str) -> str:
    """What the report is called."""
    return term(_TITLES[profile]) if profile in _TITLES else say("Report of profile {profile}", profile=profile)


def count(number: int) -> str:
    """1,250."""
    return f"{number:,}"


def percent(part: int, whole: int) -> str:
    """95.0 %; never 100.0 % for less than all, nor 0.0 % for more than none."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if 0 < part < whole:
        share = min(99.9, max(0.1, share))
    return f"{share:.1f} %"


def duration(seconds: float) -> str:
    """45 s, 12 min 5 s, 3 h 20 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def headline(report: Report) -> str:
    """The verdict in a few words."""
    counts = node_counts(report)
    total, good = len(report.nodes), sum(counts[verdict] for verdict in GOOD)
    if not total:
        return say("No node was judged")
    if report.run.profile != Profile.DELIVERY.value:  # only a delivery is accepted
        return say("{good} of {nodes} in order", good=count(good), nodes=_nodes(total))
    if good == total:
        return say("All {n} nodes accepted", n=count(total)) if total > 1 else say("The node is accepted")
    return say("{good} of {nodes} accepted", good=count(good), nodes=_nodes(total))


def sentences(report: Report) -> list[str]:
    """The verdict and its scope in plain sentences."""
    counts = node_counts(report)
    total, run = len(report.nodes), report.run
    is_delivery = run.profile == Profile.DELIVERY.value
    found = list(_of_gpus(report)) if is_delivery else []
    if not total:
        found.append(say("The run holds no node, so it accepts nothing."))
    rest = [f"{count(counts[verdict])} {term(meaning)}" for verdict, meaning in _REST if counts[verdict]]
    if rest:
        names = "; ".join(rest)
        found.append(
            say("Not accepted: {nodes}.", nodes=names) if is_delivery else say("Not in order: {nodes}.", nodes=names)
        )
    unproven = unproven_count(report)
    if unproven:
        found.append(say("{claims}, and no one has signed for it.", claims=unproven[0].upper() + unproven[1:]))
    found.extend(_open_points(report))
    waived, signed = counts[NodeVerdict.WAIVED], counts[NodeVerdict.GAPS]
    if waived:
        found.append(number_of("{n} of the accepted holds waivers.", "{n} of the accepted hold waivers.", waived))
    if signed:
        found.append(number_of("{n} of the accepted has signed gaps.", "{n} of the accepted have signed gaps.", signed))
    if run.answer:
        found.insert(0, phrase(f"{run.answer[0].upper()}{run.answer[1:]}."))
    if run.interrupted:
        found.append(say("The run was interrupted: what it had not reached was not judged."))
    if run.selection:
        found.append(say("Only a part was requested: {selection}.", selection=phrase(run.selection)))
    found.extend(phrase(f"{note[:1].upper()}{note[1:]}.") for note in run.notes)
    return found


def _of_gpus(report: Report) -> Iterator[str]:
    """How many GPUs are accepted."""
    (good, gpus), of, total = gpu_counts(report), sum(node.gpus > 0 for node in report.nodes), len(report.nodes)
    if gpus and of == total:
        yield say("{good:,} of {gpus:,} GPUs accepted.", good=good, gpus=gpus)
    elif gpus:
        yield say(
            "{good:,} of {gpus:,} GPUs accepted (of {some:,} of {nodes:,} nodes; the others are not counted).",
            good=good,
            gpus=gpus,
            some=of,
            nodes=total,
        )


def _open_points(report: Report) -> Iterator[str]:
    """How many causes there are, and what was not judged."""
    causes = [cause for cause in report.causes if cause.condition != NOT_JUDGED and not cause.waiver]
    checks, nodes = unjudged_checks(report)
    if causes:
        number = len(causes)
        yield number_of(
            "{n} cause to work on, worst first below.", "{n:,} causes to work on, worst first below.", number
        )
    if checks:
        yield number_of(
            "{n} check was not judged on {nodes}: there is no limit.",
            "{n:,} checks were not judged on {nodes}: there is no limit.",
            len(checks),
            nodes=_nodes(len(nodes)),
        )


def _nodes(number: int) -> str:
    return number_of("{n:,} node", "{n:,} nodes", number)
