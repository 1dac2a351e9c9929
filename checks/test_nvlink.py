"""NVLink: every link of every GPU is up, at full speed, and has needed no repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.subjects.gpu import answering
from nodegate.subjects.nvlink import errors, linked, links_down, slow, speeds_mbps
from nodegate.verdict import Limit, Verdict

if TYPE_CHECKING:
    from nodegate import Verdicts
    from nodegate.baseline.baseline import Baseline
    from nodegate.probe.gpu import Gpus

pytestmark = pytest.mark.tier("bootcheck")

_REMEDY = "read the kernel log for SXid and Xid 74 of this link; power-cycle the node; if it stays, call the vendor"


def test_links(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every NVLink of every GPU is up, and there are as many as the platform has. (F13)

    One link down takes its share of the bandwidth from every collective, or stops NVLS at all. A card without NVLink
    is not judged, unless its platform should have some.
    """
    count = baseline.find("nvlink.count")
    for gpu, links in linked(answering(gpus, verdicts), count, verdicts):
        down, unread = links_down(links)
        for link, reason in unread:
            verdicts.unknown(subject=gpu.subject, what=f"the state of NVLink {link}", reason=reason)
        if not unread:
            expected = count or Limit(len(links), "links", "the links that this GPU has")
            remedy = f"NVLink {', '.join(map(str, down))} down: {_REMEDY}" if down else _REMEDY
            verdicts.equal(
                subject=gpu.subject,
                what="NVLinks up",
                observed=len(links) - len(down),
                expected=expected,
                remedy=remedy,
            )


def test_speed(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every NVLink that is up runs at the platform's speed, or as fast as the fastest of its node. (F13, F09)

    A link that trained slower still works, and all traffic through it waits.
    """
    answers = answering(gpus, verdicts)
    pairs = list(linked(answers, baseline.find("nvlink.count"), verdicts))
    fastest = max((speed for _, links in pairs for speed in speeds_mbps(links)), default=0)
    limit = baseline.find("nvlink.speed_mbps") or Limit(fastest, "MB/s", "the fastest NVLink of this node")
    for gpu, links in pairs:
        for link in slow(links, limit):
            verdicts.at_least(
                subject=f"{gpu.subject} NVLink {link.link}",
                what="speed",
                observed=link.speed_mbps,
                limit=limit,
                remedy=_REMEDY,
            )
        good = len(speeds_mbps(links)) - len(slow(links, limit))
        if good > 0:
            verdicts.passed(subject=gpu.subject, message=f"{good} NVLinks at {limit.value} MB/s or more")
        elif not slow(links, limit):
            verdicts.found(Verdict.SKIP, subject=gpu.subject, message="no NVLink is up, see nvlink.links")


@pytest.mark.tier("nightly")
def test_errors(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No NVLink had to be recovered or had to send data again since the driver was loaded. (F13)

    A count since load has no time, so it warns; an increase during a test is what fails (DCGM). CRC errors alone are
    corrected on the way and matter from 100 a second on (DCGM): they are shown, and judged only as a rate.
    """
    for gpu, links in linked(answering(gpus, verdicts), baseline.find("nvlink.count"), verdicts):
        seen = errors(links)
        for message in seen.bad:
            verdicts.found(Verdict.WARN, subject=gpu.subject, message=message, remedy=_REMEDY)
        for link, reason in seen.unread:
            verdicts.unknown(subject=gpu.subject, what=f"an error counter of NVLink {link}", reason=reason)
        if not seen.bad and not seen.unread and seen.told:
            message = f"no replay and no recovery on {seen.told} NVLinks, {seen.crc} CRC errors corrected"
            verdicts.passed(subject=gpu.subject, message=message)
        elif not seen.told:
            verdicts.found(Verdict.SKIP, subject=gpu.subject, message="this driver does not tell NVLink errors")
