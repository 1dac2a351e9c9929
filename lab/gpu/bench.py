"""The machine as a node: nodegate's own programs, sent and guarded as over any connection, and what they answered."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nodegate.facts import NodeFacts
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn.run import OWN as BURN
from nodegate.measure.burn.run import PHASES
from nodegate.measure.copies import document as copies_document
from nodegate.measure.own_program import PACKAGES
from nodegate.measure.own_program import program as own_program
from nodegate.measure.program_run import run
from nodegate.node import Connection, Node
from nodegate.node_program import PYTHON_OPTIONS, pack
from nodegate.probe.collect import collect
from nodegate.transport.command import CommandSession
from nodegate.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodegate.records.program_run import ProgramRun
    from nodegate.transport.call import Call
    from nodegate.transport.session import Session

MAX_BYTES = 8 << 20
_ANSWER_LIMIT_S = 60.0
_START_LIMIT_S = 60.0
_SPARE_S = 90.0  # a slow NVML, and the guard's own end
_COPIES_START_S = 60.0


class Lengths(NamedTuple):
    """How long each part computes, in seconds, `into_s` before it is interrupted; rows of a matrix, bytes of a copy.

    `patterns_s` is the longest time for the patterns that all of the memory is tested with.
    """

    own_s: float
    cublas_s: float
    copies_s: float
    into_s: float
    patterns_s: float
    matrix: int = 8192
    copied: int = 512 << 20


_OF_KERNELS = 8  # as much memory for the kernels as for a copy, times this
SHORT = Lengths(12.0, 12.0, 14.0, 6.0, 15.0)
FULL = Lengths(240.0, 300.0, 90.0, 6.0, 120.0)


@dataclass
class Bench:
    """One run of the command: the session, the mark of its processes, and every document that came."""

    session: Session
    mark: str
    lengths: Lengths
    library: str = ""
    facts: NodeFacts | None = None
    programs: list[ProgramRun] = field(default_factory=list)
    documents: dict[str, object] = field(default_factory=dict)  # as they came, by the name of their recording

    def probe(self) -> NodeFacts:
        """The facts of this machine, read anew."""
        document = collect(self.session)
        return NodeFacts(document)

    def burn(self, path: str, seconds: float, name: str = "") -> Mapping[str, object]:
        """The document of one burn, as it came; `name` keeps it.

        Raises:
            CannotMeasure: it sent none.
        """
        program = burn_program(path, seconds, self.lengths.matrix, self.library)
        return self._document(BURN, program, 2 * _START_LIMIT_S + seconds + _ANSWER_LIMIT_S + _SPARE_S, BURN_WIRE, name)

    def copies(self, seconds: float, name: str = "") -> Mapping[str, object]:
        """The document of the copies, as it came; `name` keeps it.

        Raises:
            CannotMeasure: it sent none.
        """
        size, patterns_s = self.lengths.copied, self.lengths.patterns_s if name else 0.0
        options: dict[str, object] = {
            "seconds": seconds,
            "size": size,
            "kernel_size": _OF_KERNELS * size,
            "pattern_s": patterns_s,
        }
        options |= {"peers": "all", "start_limit_s": _COPIES_START_S}
        purpose = "copies to, from and between the GPUs and compares what arrived; writes nothing to disk."
        program = own_program("copies", options=options, purpose=purpose)
        limit_s = 20 * seconds + 2 * patterns_s + _COPIES_START_S + _SPARE_S
        return self._document("copies", program, limit_s, COPIES_WIRE, name)

    def hold(self, uuid: str, pci: str, share: float) -> Call:
        """Start a program that holds this share of a GPU's memory; returns when it does, or when it has ended."""
        options = {"uuid": uuid, "pci": pci, "share": share, "seconds": 300.0}
        packages = ("lab.gpu.hold", *PACKAGES)
        program = pack(main="lab.gpu.hold", packages=packages, options=options, purpose="holds memory of a GPU.")
        running = self.session.start(_argv(), timeout_s=300.0, stdin=program)
        running.line()
        return running

    def start_burn(self, session: Session, seconds: float) -> Call:
        """Start a burn with our own kernels and do not wait for it."""
        program = burn_program("ptx", seconds, self.lengths.matrix, "")
        return session.start(_argv(), timeout_s=seconds + _START_LIMIT_S + _SPARE_S, stdin=program)

    def _document(self, what: str, program: bytes, limit_s: float, wire: Wire, name: str) -> Mapping[str, object]:
        ran = run(self.session, what, _argv(), timeout_s=limit_s, stdin=program)
        found = decoded(wire, ran.stdout)
        if name:
            self.documents[name] = found
            self.programs.append(ran)
        return found


BURN_WIRE = Wire(burn_document.SCHEMA, "the burn", MAX_BYTES, "read what it printed")
COPIES_WIRE = Wire(copies_document.SCHEMA, "the copies", MAX_BYTES, "read what it printed")


def local_session() -> CommandSession:
    """This machine as a node, with this Python."""
    return CommandSession(Node("localhost", Connection(transport="local", python=sys.executable)))


def burn_program(path: str, seconds: float, matrix: int, library: str) -> bytes:
    """The burn as it goes to a node."""
    options = {
        "seconds": seconds,
        "phases": [list(each) for each in PHASES],
        "matrix": matrix,
        "path": path,
        "library": library,
        "start_limit_s": _START_LIMIT_S,
        "answer_limit_s": _ANSWER_LIMIT_S,
    }
    purpose = f"burns every GPU for {seconds:g} s and compares the results; writes nothing to disk."
    return own_program("burn", options=options, purpose=purpose)


def decoded(wire: Wire, written: str) -> Mapping[str, object]:
    """The object in what a program printed.

    Raises:
        CannotMeasure: there is none.
    """
    found = wire.json(written)
    return found if isinstance(found, dict) else {}


def _argv() -> list[str]:
    return [sys.executable, *PYTHON_OPTIONS, "-"]
