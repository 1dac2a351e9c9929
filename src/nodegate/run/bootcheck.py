"""The pre-job check of the local node: the probe, the checks of tier bootcheck, one line and an exit code.

A scheduler's hook waits for this, so pandas, scipy, paramiko, jinja2 and pytest are not imported, nor what judges load.
"""

from __future__ import annotations

import datetime as dt
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nodegate import suite
from nodegate.causes.lines import LINE_LENGTH, line, worst_in_short
from nodegate.claims.prove import claims_of_node, why
from nodegate.claims.verdict import unsigned
from nodegate.demands.demands import Demands
from nodegate.demands.here import is_own_name, of_another
from nodegate.demands.limits import baselines_of
from nodegate.errors import Busy, CannotMeasure, UsageError
from nodegate.exit_codes import Exit
from nodegate.judge.context import Context
from nodegate.judge.fleet import Fleet
from nodegate.judge.judge import judge
from nodegate.judge.waivers import Waivers, signed_gaps
from nodegate.measure.registry import is_active
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.cause import Cause
from nodegate.records.evidence import Evidence
from nodegate.records.finding import Record
from nodegate.records.verdict import GOOD, NodeVerdict, Verdict
from nodegate.run.decision import decide
from nodegate.run.for_the_record import placed_parts
from nodegate.subjects.order import check_orders
from nodegate.text import port_number, shown, visible
from nodegate.words.catalogue import known, phrase, say, term

WHO = "nodegate bootcheck"  # the holder that the node's lock shows
PROBE_TIMEOUT_S = 30.0  # the probe's own sections end earlier
_LOOPBACK = ("localhost", "ip6-localhost")


@dataclass(frozen=True)
class Outcome:
    """The answer: exit code, one line of reason, every record, their causes, and the hash of what the site asked.

    `serials` are those of the chassis, GPUs and RDMA adapters by their names in the node.
    """

    exit: Exit
    line: str
    records: tuple[Record, ...] = ()
    causes: tuple[Cause, ...] = ()
    demands: str = ""
    serials: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The line, and a line for each cause, worst first."""
        return [self.line, *(f"{term(cause.severity.value)}: {line(cause).text}" for cause in self.causes)]

    def to_json(self) -> str:
        """The answer as one JSON object, records included."""
        value = {
            "schema": "nodegate.run.bootcheck/2",
            "answer": self.exit.word,
            "exit_code": int(self.exit),
            "line": self.line,
            "demands": self.demands,
            "results": [asdict(record) for record in self.records],
        }
        return json.dumps(value, ensure_ascii=False)


def bootcheck(
    *,
    baselines: Sequence[Path] = (),
    expected: Mapping[str, object] | None = None,
    demanded: Callable[[], Demands | None] = lambda: None,
    environ: Mapping[str, str] | None = None,
    measure: Callable[[Node], Evidence] | None = None,
    active: bool = False,
    without: tuple[str, ...] = (),
) -> Outcome:
    """Judge this node now. Never raises: an internal error is exit code 2.

    Args:
        baselines: more baseline files.
        expected: what an inventory would say about this node (`platform`, `gpus`, ...); it wins over what is demanded.
        demanded: reads what the site asks of this node; None where it asks nothing.
        environ: the environment of the job that waits for the answer: its MASTER_PORT must be free.
        measure: returns the evidence; by default from the probe on this machine.
        active: also put load on the GPUs, for about a minute.
        without: beginnings of the ids of checks to leave out ("idle.").
    """
    try:
        demands = demanded() or Demands(socket.gethostname(), {})
        port = job_port(environ or {})
        node = demands.as_node(socket.gethostname(), expected or {}, ports=[port.number] if port.number else [])
        rules = baselines_of(demands, baselines)
        rules.check_expected([node])
        check_orders([node])
        serials: Mapping[str, str] = {}
        gaps = Waivers(signed_gaps([node]), dt.datetime.now(tz=dt.timezone.utc).date())
        checks = [check for check in suite.checks_of(Profile.BOOTCHECK) if not check.id.startswith(without)]
        if active:
            from nodegate.run.local_run import judge_here  # noqa: PLC0415 - with the statistics, which take their time

            records = judge_here(node, checks, rules, Profile.BOOTCHECK)
        else:
            checks = [check for check in checks if not is_active(check.asks_for)]
            evidence = (measure or measure_here)(node)
            # a node by itself: checks that compare skip, those that only ask what other nodes saw judge it alone
            context = Context(node, evidence, baselines=rules, profile=Profile.BOOTCHECK, fleet=lambda: Fleet({}))
            if context.facts:
                serials = {each.slot: each.serial for each in placed_parts(context.facts, context.parts)}
            records = tuple(judge(check, context.resolve, node.name, context.parts) for check in checks)
    except Busy as said:
        return Outcome(Exit.BUSY, _line(say("busy: {why}", why=phrase(said.reason))))
    except (UsageError, CannotMeasure) as said:
        return Outcome(Exit.UNKNOWN, _line(_unknown(phrase(str(said)))))
    except Exception as fault:  # noqa: BLE001 - an internal error must never drain a node
        return Outcome(Exit.UNKNOWN, _line(_unknown(f"nodegate failed ({type(fault).__name__}: {fault})")))
    serial = next((record.verdict for record in records if record.check == "platform.serial"), None)
    is_ours = {Verdict.PASS: True, Verdict.FAIL: False}.get(serial) if serial else None  # None: nothing says so
    if foreign := of_another(demands, serial_is_ours=is_ours):
        return Outcome(Exit.UNKNOWN, _line(_unknown(phrase(foreign))))
    outcome = outcome_of(records, signed=lambda claim: gaps.signed(claim, node.name))
    note = f"; {phrase(port.left_out)}" if port.left_out and outcome.exit is Exit.FIT else ""
    return replace(
        outcome, line=_line(outcome.line + note), demands=demands.sha256 if demands.place else "", serials=serials
    )


def outcome_of(records: tuple[Record, ...], signed: Callable[[str], str] = lambda _claim: "") -> Outcome:
    """The answer for these records; `signed` says who accepts that a claim is not proven here."""
    claims = claims_of_node(Profile.BOOTCHECK, records, signed=signed)
    claims = tuple(each for each in claims if not each.left_out)  # the site left these checks out
    decided = decide(records[0].node if records else "", records, claims)
    verdict, records, causes = decided.verdict, decided.records, decided.causes
    decisive = {NodeVerdict.REJECTED: Verdict.FAIL, NodeVerdict.INCOMPLETE: Verdict.ERROR}.get(verdict)
    if verdict in GOOD:
        passed = sum(record.verdict in (Verdict.PASS, Verdict.WARN) for record in records)
        warned = sum(record.verdict is Verdict.WARN for record in records)
        text = say("fit: {n} checks passed", n=passed) + (say(", {n} with warnings", n=warned) if warned else "")
        return Outcome(Exit.FIT, text, records, causes)
    if decisive is None:
        return Outcome(Exit.UNKNOWN, _unknown(say("no check applies to this node")), records, causes)
    if decided.disagrees:
        return Outcome(Exit.UNKNOWN, _line(_unknown(records[-1].message)), records, causes)
    open_ones = unsigned(claims)
    if decisive is Verdict.ERROR and open_ones and not any(record.verdict is Verdict.ERROR for record in records):
        said = say("{claim} not proven: {why}", claim=open_ones[0].claim, why=why(open_ones[0], records))
        return Outcome(Exit.UNKNOWN, _line(_unknown(said)), records, causes)
    word = known("unfit") if decisive is Verdict.FAIL else known("could not tell")
    text = worst_in_short(term(word), [cause for cause in causes if cause.verdict is decisive])
    return Outcome(Exit.UNFIT if decisive is Verdict.FAIL else Exit.UNKNOWN, text, records, causes)


def measure_here(node: Node) -> Evidence:
    """The facts of this machine, while no one else measures it.

    Raises:
        Busy: another run holds the node's lock.
        CannotMeasure: the probe returned nothing.
    """
    from nodegate.node_side.probe.main import SECTIONS  # noqa: PLC0415
    from nodegate.run.node_facts import facts  # noqa: PLC0415
    from nodegate.transport.command import CommandSession  # noqa: PLC0415
    from nodegate.transport.session import Busy as LockBusy  # noqa: PLC0415

    session = CommandSession(node)
    try:
        lock = session.hold_lock(node.connection.lock, who=WHO)
        if isinstance(lock, LockBusy):
            raise Busy(f"another run holds this node ({lock.holder})", next_step="wait for it to end")
        sections = [name for name in SECTIONS if name != "hooks"]  # for the fleet's record alone
        return facts(session, sections=sections, limit_s=PROBE_TIMEOUT_S)
    finally:
        session.close()


def _unknown(why: str) -> str:
    return say("could not tell: {why}", why=why)


def _line(text: str) -> str:
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= LINE_LENGTH else flat[: LINE_LENGTH - 3] + "..."


@dataclass(frozen=True)
class JobPort:
    """The port that must be free on this node, or why it need not be: in words, empty where there is no port."""

    number: int | None = None
    left_out: str = ""


def job_port(environ: Mapping[str, str]) -> JobPort:
    """The port of the job that this runs in: looked at on the node of rank 0, before its first task.

    Raises:
        UsageError: MASTER_PORT is not a port.
    """
    written, address = environ.get("MASTER_PORT", "").strip(), environ.get("MASTER_ADDR", "").strip()
    if not written:
        return JobPort()
    number = port_number(written)
    if number is None:
        raise UsageError(f"MASTER_PORT={shown(written)} is not a TCP port", hint="give one of 1 to 65535")
    if environ.get("SLURM_LOCALID", "0") != "0":  # another task of the node may listen by now
        return JobPort(left_out=f"MASTER_PORT {number} not looked at: the node's first task does")
    if address and not _is_here(address):
        return JobPort(left_out=f"MASTER_PORT {number} not looked at: {shown(address)} opens it")
    return JobPort(number)


def _is_here(address: str) -> bool:
    """Whether an address is this machine's, without asking a name server, which may not answer."""
    if address.casefold() in _LOOPBACK or is_own_name(address):
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.bind((address, 0))
        except OSError:
            continue
        return True
    return False
