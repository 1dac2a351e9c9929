"""A rail that is bad in some of its transfers, whoever is its partner: one good look does not acquit it."""

from collections.abc import Sequence

from nodegate.measure.rdma.result import BANDWIDTHS, BOTH_AT_ONCE, ODD, LinkRun, RdmaBandwidth
from nodegate.numbers import unsteady
from nodegate.records.verdict import Verdict

_FEWEST = 2  # partners with whom it was bad: with one alone it may be that one, or the path


def how_often(found: RdmaBandwidth, device: str, *, hung: bool) -> tuple[Verdict, str]:
    """What it says of a rail in how many transfers it hung, or was slow too: a pass where chance makes so many.

    More than half of its partners have to see it, and it is judged without the partner with which it was worst, which
    may be the unsteady one. And in equal transfers with one partner it has to be both good and bad: a path that is
    bad stays bad.
    """
    runs = [
        run
        for run in found.runs
        if run.device == device and run.name in (*BANDWIDTHS, BOTH_AT_ONCE) and _is_of_link(run)
    ]
    best: dict[str, float] = {}
    for run in runs:
        best[run.name] = max(run.value or 0.0, best.get(run.name, 0.0))
    bad = [run for run in runs if run.value is None or (not hung and run.value < ODD * best[run.name])]
    partners, seen = {run.partner for run in bad}, {run.partner for run in runs}
    if len(partners) < _FEWEST or 2 * len(partners) <= len(seen) or not _comes_and_goes(runs, bad):
        return Verdict.PASS, ""
    most = max(sorted(partners), key=lambda name: sum(run.partner == name for run in bad))
    count, looks = (sum(run.partner != most for run in each) for each in (bad, runs))
    said = (unsteady.of_hung if hung else unsteady.of_low)(count, looks, max(len(found.planned), 1))
    what = "hung or ended with an error" if hung else "was a tenth and more below its best, or had no result,"
    return said, f"{what} in {len(bad)} of {len(runs)} transfers, with {len(partners)} of {len(seen)} partners"


def _is_of_link(run: LinkRun) -> bool:
    return run.trouble is None or run.trouble.kind == "link"


def _comes_and_goes(runs: Sequence[LinkRun], bad: Sequence[LinkRun]) -> bool:
    """Whether equal transfers with one partner were both good and bad."""
    good = {(run.partner, run.name, run.sends) for run in runs if run not in bad}
    return any((run.partner, run.name, run.sends) in good for run in bad)
