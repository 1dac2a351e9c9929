"""An accepting run notes on a node which boards have passed: where the node's hooks ask for it (`gate = on`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from nodegate.errors import CannotMeasure
from nodegate.hook.passed import FILE, STATE, text_of
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.verdict import GOOD
from nodegate.report.model import Report
from nodegate.run.judging import Judging
from nodegate.transport.session import Session

_PROFILES = frozenset((Profile.DELIVERY, Profile.NIGHTLY))  # those that put load on a node
_WRITE = f"umask 022 && mkdir -p {STATE} && cat >{STATE}/.{FILE}.new && mv -f {STATE}/.{FILE}.new {STATE}/{FILE}"
_LIMIT_S = 30.0
_AT_ONCE = 64


def mark_passed(report: Report, judging: Judging, connect: Callable[[Node], Session]) -> list[str]:
    """Write the serial numbers of each accepted node that asks for it to /var/lib/nodegate/passed; what failed."""
    if judging.profile not in _PROFILES:
        return []
    accepted: dict[str, Mapping[str, str]] = {}
    for each in report.nodes:
        summary = judging.contexts.summary(each.node)
        is_here = each.node in judging.nodes and judging.nodes[each.node].connection.transport != "replay"
        if each.verdict in GOOD and is_here and summary and summary.gate and summary.placed:
            accepted[each.node] = {part.slot: part.serial for part in summary.placed}

    def write(name: str) -> str:
        text = text_of(report.run.id, report.run.finished_epoch_s, accepted[name])
        return _write(connect, judging.nodes[name], text)

    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(accepted)))) as pool:
        failed = {name: said for name, said in zip(accepted, pool.map(write, accepted), strict=True) if said}
    return [f"{name} has passed, which could not be noted there: {said}" for name, said in failed.items()]


def _write(connect: Callable[[Node], Session], node: Node, text: str) -> str:
    """Why the file could not be written; empty if it is there."""
    try:
        session = connect(node)
        try:
            done = session.run(["sh", "-c", _WRITE], timeout_s=_LIMIT_S, stdin=text.encode(), as_root=True)
        finally:
            session.close()
    except CannotMeasure as said:
        return str(said)
    return "" if done.exit_code == 0 else done.stderr.decode("utf-8", "replace").strip()[-200:] or "no answer"
