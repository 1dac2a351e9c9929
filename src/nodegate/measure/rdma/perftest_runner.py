"""The life of perftest servers and clients: all links of two nodes at the same time, and nothing left behind.

A server waits forever and a client does not try again: the servers are started first, their ports are checked
without connecting to them, then the clients run within their time limit, then remaining servers are ended. On each
node all programs run under one guard (run_many.py), so that they start together, and a node of many rails needs one SSH
channel for its servers and one for its clients.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure.measurement import Target
from nodegate.measure.program_run import MAX_KEPT, not_run
from nodegate.node_program import node_source, node_source_with
from nodegate.node_side.seats import cpus_in
from nodegate.records.program_run import LinkEnd, LinkNotes, ProgramRun, Role
from nodegate.transport.call import printable
from nodegate.transport.session import Output

LONGEST_S = 1e9  # more is not a valid duration; nor is nan
LISTEN_S = 30.0  # a server listens after about a second; a loaded node takes longer
SERVER_END_S = 3.0  # a server ends by itself just after its client
_LONGEST = 200
_MALFORMED = ValueError, TypeError, LookupError, RecursionError
END_S = 15.0  # what run_many.py needs beyond its programs' time: to end them, and to report it


@dataclass(frozen=True)
class Program:
    """One program: its command line, the folder of its port's own counters, and the NIC near which it runs.

    The two programs of a NIC, which may run on one node, differ in `turn`.
    """

    argv: tuple[str, ...]
    counters: str = ""
    nic: str = ""
    turn: int = 0

    def to_json(self, timeout_s: float) -> dict[str, object]:
        """Its form in a request to run_many.py."""
        search = node_source("tools.in_container") in self.argv
        seat = {"nic": self.nic, "turn": self.turn, "search": search} if self.nic else None
        return {"argv": list(self.argv), "timeout_s": timeout_s, "counters": self.counters, "seat": seat}


@dataclass(frozen=True)
class LinkCommands:
    """One link's two programs, the TCP port by which they find each other, and the name of the link for messages."""

    link: str
    server: Program
    client: Program
    port: int


@dataclass(frozen=True)
class End:
    """A node of a link, with all NICs that are measured there."""

    target: Target
    nics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """The results of the two programs of a link. If a client was not started, `cannot` says why."""

    server: ProgramRun
    client: ProgramRun


def run_at_once(
    target: Target, what: str, programs: Sequence[Program], *, timeout_s: float, nics: Sequence[str] = ()
) -> tuple[ProgramRun, ...]:
    """Run programs on one node at the same time, each within `timeout_s`; `nics` are all that are measured there.

    Raises:
        Unreachable: the connection broke.
    """
    stdin = _request(programs, timeout_s, nics=nics)
    output = target.session.run(
        _argv(target), timeout_s=timeout_s + END_S, stdin=stdin, as_root=target.node.connection.become
    )
    return _rans(output, what, programs, Role.CLIENT)


def pair(server: End, client: End, what: str, links: Sequence[LinkCommands], *, timeout_s: float) -> tuple[Ended, ...]:
    """Measure all links between two nodes, or within one, at the same time; each client within `timeout_s`.

    Raises:
        Unreachable: the connection to one of the nodes broke. The servers are ended anyway.
    """
    programs = [link.server for link in links]
    limit_s = LISTEN_S + timeout_s + END_S
    ports = [link.port for link in links]
    running = server.target.session.start(
        _argv(server.target),
        timeout_s=limit_s + END_S,
        stdin=_request(programs, limit_s, ports=ports, nics=server.nics),
        as_root=server.target.node.connection.become,
    )
    clients: dict[int, ProgramRun] = {}
    heard: frozenset[int] = frozenset()
    try:
        line = running.line()
        with suppress(*_MALFORMED):  # whatever the line is; a port that was in use before does not count
            said = json.loads(line)
            heard = frozenset(said["listening"]) - frozenset(said["taken"])
        ready = [place for place, link in enumerate(links) if link.port in heard]
        if ready:
            started = [links[place].client for place in ready]
            ran = run_at_once(client.target, what, started, timeout_s=timeout_s, nics=client.nics)
            clients = dict(zip(ready, ran, strict=True))
        running.ended(SERVER_END_S if ready else 0.0)
    except BaseException:
        with suppress(Unreachable):
            running.stop()
        raise
    servers = _rans(running.stop(), what, programs, Role.SERVER)
    return tuple(
        Ended(servers[place], clients.get(place) or not_run(what, _silent(link, server.target, servers[place])))
        for place, link in enumerate(links)
    )


def _silent(link: LinkCommands, target: Target, server: ProgramRun) -> CannotMeasure:
    """Why a client was not started: its server did not listen."""
    said = printable((server.stderr or server.stdout or server.why_not).encode(), 160)
    reason = f"{link.link}: the server on {target.node.name} does not listen on port {link.port}"
    step = "check what listens on this port of the node, and whether perftest starts there"
    return CannotMeasure(f"{reason}: {said}" if said else reason, next_step=server.next_step or step)


def _argv(target: Target) -> list[str]:
    return [target.node.connection.python, "-I", "-S", "-c", node_source_with("run_many", "seats") + "\nmain()\n"]


def _request(
    programs: Sequence[Program], timeout_s: float, ports: Sequence[int] = (), nics: Sequence[str] = ()
) -> bytes:
    request = {
        "programs": [program.to_json(timeout_s) for program in programs],
        "ports": list(ports),
        "nics": list(nics),
        "listen_s": LISTEN_S,
        "max_bytes": MAX_KEPT // 2,
    }
    return json.dumps(request).encode()


def _rans(output: Output, what: str, programs: Sequence[Program], role: Role) -> tuple[ProgramRun, ...]:
    """The result of each program, in their order; one without a line could not be run, or was not ended in time."""
    found: dict[object, Mapping[str, object]] = {}
    for line in output.stdout.decode("utf-8", "replace").splitlines():
        with suppress(*_MALFORMED):
            entry = json.loads(line)
            found[entry["place"]] = entry
    said = printable(output.stderr, 160)
    why = "it was ended with the other programs of its node" if output.timed_out or output.exit_code is None else said
    missing = CannotMeasure(f"no result of {what}{': ' + why if why else ''}", next_step="run again")
    return tuple(
        _ran(what, program.argv, found[place], output, role) if place in found else not_run(what, missing)
        for place, program in enumerate(programs)
    )


def _ran(what: str, argv: Sequence[str], line: Mapping[str, object], output: Output, role: Role) -> ProgramRun:
    code, stuck, took_s = line.get("exit"), line.get("stuck"), line.get("duration_s")
    end = seat_of(line.get("seat"))
    if "counted" in line:  # what the port sent and received before and after; nothing where it cannot be read
        counts = line["counted"] if isinstance(line["counted"], list) else []
        is_read = all(isinstance(each, int) and 0 <= each < 1 << 64 for each in counts)
        end = replace(end, counted=tuple(counts[:4]) if is_read else ())
    return ProgramRun(
        what=what,
        argv=tuple(argv),
        stdout=str(line.get("stdout", ""))[:MAX_KEPT],
        stderr=str(line.get("stderr", ""))[:MAX_KEPT],
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        timed_out=line.get("timed_out") is True,
        truncated=line.get("truncated") is True or output.truncated,
        stuck=tuple(str(each)[:100] for each in stuck[:20]) if isinstance(stuck, list) else output.stuck,
        started_epoch_s=round(time.time() - output.duration_s, 3),
        duration_s=round(took_s, 3) if isinstance(took_s, (int, float)) and 0 <= took_s < LONGEST_S else 0.0,
        link=LinkNotes(server=end) if role is Role.SERVER else LinkNotes(client=end),
    )


def seat_of(said: object) -> LinkEnd:
    """What is noted of a program by what run_many.py says of its seat; nothing where it asked for none."""
    if not isinstance(said, dict):
        return LinkEnd()
    near, asked, found, why = (str(said.get(name) or "")[:_LONGEST] for name in ("near", "asked", "found", "why"))
    if not why and found and not cpus_in(found) <= cpus_in(asked):
        why = f"bound to CPU {asked}, but the kernel ran it on {found}"
    if not why and not found:
        why = "the CPUs that it ran on were not recorded"
    return LinkEnd(cpus=found, near="" if why else near, unbound=why)
