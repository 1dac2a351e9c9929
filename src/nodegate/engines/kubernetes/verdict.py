"""What a run says of a node, in a cluster's words: the condition NodegateUnfit, an event, the value of a taint."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.causes.lines import worst_in_short
from nodegate.engines.kubernetes.cluster import KubeNode, epoch_s, time_of
from nodegate.profile import Profile
from nodegate.records.run import NodeReport
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.text import visible

CONDITION = "NodegateUnfit"
HEARTBEAT_S = 300.0
UNFIT, FIT, UNKNOWN = "True", "False", "Unknown"
_LONGEST = 400  # characters of a message
_BY_RUN = re.compile(r"; run of (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$", re.ASCII)
_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")
_UNDER_LOAD = frozenset((Profile.DELIVERY, Profile.NIGHTLY))
_REASONS = {
    NodeVerdict.UNREACHABLE: "Unreachable",
    NodeVerdict.INCOMPLETE: "NotAllProven",
    NodeVerdict.NOT_JUDGED: "NotJudged",
}


@dataclass(frozen=True)
class Word:
    """What a run says of one node.

    `status` is that of the condition: `UNFIT`, `FIT`, or `UNKNOWN` where the run could not tell. `taint` is the value
    of the taint of an unfit node. `has_passed`: accepted under load, so that what was bad before is not so now.
    """

    node: str
    status: str
    reason: str
    message: str
    run_s: float
    taint: str = ""
    has_passed: bool = False


def words(report: Report, valid_s: float, now_s: float) -> list[Word]:
    """What a run says of its nodes, worst first; of all of them `UNKNOWN` once it is older than `valid_s`."""
    return [_word(report, node, is_old=now_s - report.run.started_epoch_s > valid_s) for node in report.nodes]


def _word(report: Report, node: NodeReport, *, is_old: bool) -> Word:
    run = report.run
    causes = report.node_causes[node.node]
    failed = [each for each in causes if each.verdict is Verdict.FAIL and not each.waiver]
    if is_old:
        status, reason, said = UNKNOWN, "VerdictTooOld", f"{node.verdict.value} by a run that is too old to count"
    elif node.verdict is NodeVerdict.REJECTED and failed:
        status, reason, said = UNFIT, _camel(failed[0].condition), worst_in_short("unfit", failed)
    elif node.verdict in GOOD:
        status, reason, said = FIT, "Accepted", f"{node.verdict.value} by profile {run.profile}"
    else:
        claims = ", ".join(each.claim for each in node.unproven if not each.signed)
        why = node.unreachable or (worst_in_short("could not tell", causes) if causes else f"not proven: {claims}")
        status, reason, said = UNKNOWN, _REASONS.get(node.verdict, "CouldNotTell"), why
    message = visible(" ".join(said.split()), most=_LONGEST)
    return Word(
        node=node.node,
        status=status,
        reason=reason,
        message=f"{message}; run of {time_of(run.started_epoch_s)}",
        run_s=run.started_epoch_s,
        taint=_LABEL.sub("_", failed[0].condition)[:63].strip("_.-") or "unfit" if status == UNFIT else "",
        has_passed=status == FIT and run.profile in _UNDER_LOAD,
    )


def why_not(word: Word, node: KubeNode) -> str:
    """Why a run's word does not hold for this node of the cluster; empty where it does."""
    if node.joined_epoch_s > word.run_s:
        return f"it joined the cluster at {time_of(node.joined_epoch_s)}, after the run began"
    now = node.conditions.get(CONDITION, {})
    if now.get("status") == UNFIT and word.status != UNFIT and not word.has_passed:
        return f"{CONDITION} is {UNFIT} until a run under load accepts it"
    spoken = _BY_RUN.search(now.get("message", ""))
    if spoken and epoch_s(spoken[1]) > int(word.run_s):
        return f"a newer run has spoken, that of {spoken[1]}"
    return ""


def is_change(word: Word, node: KubeNode) -> bool:
    """Whether the node's condition says something else, or nothing yet."""
    return any(node.conditions.get(CONDITION, {}).get(key) != value for key, value in _said(word).items())


def condition(word: Word, node: KubeNode, now_s: float) -> Mapping[str, object] | None:
    """The patch of the node's status; None where it says so already, and said it in the last five minutes."""
    now, said = node.conditions.get(CONDITION, {}), _said(word)
    if not is_change(word, node) and now_s - epoch_s(now.get("lastHeartbeatTime", "")) < HEARTBEAT_S:
        return None
    times = {"lastHeartbeatTime": time_of(now_s)}
    if now.get("status") != word.status:
        times["lastTransitionTime"] = time_of(now_s)
    return {"status": {"conditions": [{"type": CONDITION, **said, **times}]}}


def event(word: Word, node: KubeNode) -> Mapping[str, object]:
    """The event of a change, in the namespace `default`, where those of nodes are."""
    now = time_of(time.time())
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{node.name[:200]}.nodegate-", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
        "reason": word.reason,
        "message": word.message,
        "type": "Normal" if word.status == FIT else "Warning",
        "source": {"component": "nodegate"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _said(word: Word) -> dict[str, str]:
    return {"status": word.status, "reason": word.reason, "message": word.message}


def _camel(condition: str) -> str:
    """A condition's name as Kubernetes writes a reason: gpu_lost is GpuLost."""
    found = "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", condition))
    return found if found[:1].isalpha() else f"Unfit{found}"
