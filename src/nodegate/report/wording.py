"""The words of a report: its title, the plain sentences of its verdict, and what each verdict word means."""

from collections.abc import Iterator

from nodegate.records.cause import NOT_JUDGED
from nodegate.records.verdict import GOOD, NodeVerdict
from nodegate.report.claim_rows import unproven_count
from nodegate.report.model import Report, gpu_counts, node_counts
from nodegate.report.not_judged import unjudged_checks

_TITLES = {
    "delivery": "Acceptance report",
    "nightly": "Nightly re-validation",
    "bootcheck": "Boot check",
    "troubleshoot": "Troubleshooting report",
}

CLAIM_WORDS = (
    ("proven", "", "Every part was judged by an absolute limit and kept it, in this run.", "已证实"),
    ("refuted", "", "At least one of its checks failed.", "不成立"),
    ("not-proven", "", "Not measured, or there is no limit: the reason is given.", "未证实"),
)

CHECK_WORDS = (
    ("pass", "·", "Measured, and within limits. A pass needs a complete measurement.", "合格"),
    ("warn", "W", "Measured, and worth a look; it does not reject the node.", "告警"),
    ("fail", "F", "Measured, and out of limits. It rejects the node unless a waiver covers it.", "不合格"),
    ("not-judged", "N", "Measured, but there is no limit: neither pass nor fail.", "未判定"),
    ("error", "E", "Could not be measured: missing tool, timeout, insufficient rights. Never a pass.", "无法判定"),
    ("skip", "–", "Does not apply here or was not requested; the reason is given.", "未检"),  # noqa: RUF001 - the cell's sign
)

NODE_WORDS = (
    ("accepted", "·", "Nothing failed, and every claim of the profile is proven.", "验收合格"),
    ("accepted-with-waivers", "A", "Every fail is covered by a waiver with an owner and an expiry.", "让步接收"),
    ("accepted-with-gaps", "G", "What is not proven is signed for, with an owner and an expiry.", "附条件接收"),
    ("rejected", "R", "At least one fail.", "不合格"),
    ("incomplete", "I", "No fail, but something could not be measured, or a claim is not proven.", "未完成"),
    ("unreachable", "U", "The node could not be reached, or refused the login.", "无法连接"),
    ("not-judged", "N", "No check gave a verdict, so nothing is known.", "未检"),
)

NODE_LETTER = {word: sign for word, sign, _, _ in NODE_WORDS}


def title(profile: str) -> str:
    """What the report is called."""
    return _TITLES.get(profile, f"Report of profile {profile}")


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
        return "No node was judged"
    if good == total:
        return f"All {count(total)} nodes accepted" if total > 1 else "The node is accepted"
    return f"{count(good)} of {count(total)} {_nodes(total)} accepted"


def sentences(report: Report) -> list[str]:
    """The verdict and its scope in plain sentences."""
    counts = node_counts(report)
    total, run = len(report.nodes), report.run
    found = []
    accepted, gpus = gpu_counts(report)
    if gpus:
        of = [node for node in report.nodes if node.gpus]
        where = f" (of {count(len(of))} of {count(total)} nodes; the others are not counted)" if len(of) < total else ""
        found.append(f"{count(accepted)} of {count(gpus)} GPUs accepted{where}.")
    if not total:
        found.append("The run holds no node, so it accepts nothing.")
    rest = [
        f"{count(counts[verdict])} {meaning}"
        for verdict, meaning in (
            (NodeVerdict.REJECTED, "rejected"),
            (NodeVerdict.INCOMPLETE, "incomplete: something could not be measured, or a claim is not proven"),
            (NodeVerdict.UNREACHABLE, "not reachable"),
            (NodeVerdict.NOT_JUDGED, "not judged, because no check gave a verdict"),
        )
        if counts[verdict]
    ]
    if rest:
        found.append(f"Not accepted: {'; '.join(rest)}.")
    unproven = unproven_count(report)
    if unproven:
        found.append(f"{unproven[0].upper()}{unproven[1:]}, and no one has signed for it.")
    found.extend(_open_points(report))
    waived = counts[NodeVerdict.WAIVED]
    if waived:
        found.append(f"{count(waived)} of the accepted {'holds' if waived == 1 else 'hold'} waivers.")
    signed = counts[NodeVerdict.GAPS]
    if signed:
        found.append(f"{count(signed)} of the accepted {'has' if signed == 1 else 'have'} gaps that are signed for.")
    if run.answer:
        found.insert(0, f"{run.answer[0].upper()}{run.answer[1:]}.")
    if run.interrupted:
        found.append("The run was interrupted: what it had not reached was not judged.")
    if run.selection:
        found.append(f"Only a part was requested: {run.selection}.")
    found.extend(f"{note[:1].upper()}{note[1:]}." for note in run.notes)
    return found


def _open_points(report: Report) -> Iterator[str]:
    """How many causes there are, and what was not judged."""
    causes = [cause for cause in report.causes if cause.condition != NOT_JUDGED and not cause.waiver]
    checks, nodes = unjudged_checks(report)
    if causes:
        yield f"{count(len(causes))} {'cause' if len(causes) == 1 else 'causes'} to work on, worst first below."
    if checks:
        what = "check was" if len(checks) == 1 else "checks were"
        where = f"{count(len(nodes))} {_nodes(len(nodes))}"
        yield f"{count(len(checks))} {what} not judged on {where}: there is no limit."


def _nodes(number: int) -> str:
    return "node" if number == 1 else "nodes"
