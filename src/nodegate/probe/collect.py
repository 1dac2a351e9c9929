"""Collecting the facts of a node: run the probe over a session, check the answer."""

import re
import time
from collections.abc import Mapping, Sequence

from nodegate.engines.registry import ENGINES
from nodegate.errors import CannotMeasure
from nodegate.node import Node
from nodegate.node_program import PYTHON_OPTIONS, pack
from nodegate.probe.document import MAX_DOCUMENT_BYTES, SCHEMA, ProbeDocument, document_of, today
from nodegate.probe.mounts import folders_of
from nodegate.transport.call import Request
from nodegate.transport.session import Output, Session
from nodegate.unknown import Why
from nodegate.wire import Wire

__all__ = ["collect", "decode", "program"]

USUAL_S = 60.0
_NOISE_BYTES = 64 << 10  # what a login may print before the document
_NEXT_STEP = "run the probe by hand on the node, or read what it sent in the evidence file"
_WIRE = Wire(SCHEMA, "the probe", MAX_DOCUMENT_BYTES, _NEXT_STEP)
WIRE = _WIRE.mark.encode()  # as node_side/probe/main.py writes it
_PROGRAM = re.compile(r"[\w.+/-]{1,100}")
_MOST_PROGRAMS = 200
_REASONS = tuple(why.value for why in Why)
PACKAGE = "nodegate.node_side.probe"


def collect(
    session: Session, *, timeout_s: float = 60.0, as_root: bool = False, sections: Sequence[str] | None = None
) -> ProbeDocument:
    """Collect the facts of a node in one round trip.

    Args:
        session: an open session with the node.
        timeout_s: limit for the whole, in seconds; the probe itself ends before 60 s.
        as_root: read as root (`sudo -n`), so that kernel log, foreign processes and ACS can be read.
        sections: sections of the document to read; None: all.

    Raises:
        Unreachable: the connection broke, or the node has no python3 or no sudo.
        CannotMeasure: the probe did not end in time or sent an invalid document.
        UsageError: the controller has no valid pynvml.
    """
    asked = request(session.node, timeout_s=timeout_s, as_root=as_root, sections=sections)
    output = session.run(
        asked.argv,
        timeout_s=timeout_s,
        stdin=asked.stdin,
        as_root=as_root,
        max_output_bytes=asked.max_output_bytes,
    )
    return collected(output, time.time(), timeout_s=timeout_s)


def request(
    node: Node, *, timeout_s: float = 60.0, as_root: bool = False, sections: Sequence[str] | None = None
) -> Request:
    """What `collect` runs on a node; of many nodes it is the same.

    Raises:
        UsageError: the controller has no valid pynvml.
    """
    shorter = {"limits_s": limits_within(timeout_s)} if timeout_s < USUAL_S else {}
    programs = [name for name in node.settings.require if _PROGRAM.fullmatch(name)][:_MOST_PROGRAMS]
    folders = folders_of(node.settings.mounts)
    lent = node.connection.transport in ENGINES
    sent = program(sections=sections, programs=programs, folders=folders, lent=lent, **shorter)
    argv = (node.connection.python, *PYTHON_OPTIONS, "-")
    return Request(argv, timeout_s, sent, as_root, MAX_DOCUMENT_BYTES + _NOISE_BYTES)


def collected(output: Output, received_epoch_s: float, *, timeout_s: float) -> ProbeDocument:
    """The facts in what a probe left behind. Raises CannotMeasure: as `collect`."""
    if output.timed_out:
        raise CannotMeasure(
            f"the probe did not end within {timeout_s:g} s",
            next_step="look for processes in D state on the node (ps -eo pid,stat,wchan,comm)",
        )
    if output.exit_code != 0:
        said = output.stderr.decode("utf-8", "replace").strip().splitlines()
        how = "was truncated" if output.exit_code is None else f"ended with exit code {output.exit_code}"
        raise CannotMeasure(f"the probe {how}: {_quoted(said[-1] if said else '')}", next_step=_NEXT_STEP)
    if output.truncated:
        raise CannotMeasure(f"the probe sent more than {MAX_DOCUMENT_BYTES} bytes", next_step=_NEXT_STEP)
    document = decode(output.stdout, received_epoch_s=received_epoch_s, round_trip_s=output.duration_s)
    return document.recorded_by(today())


def limits_within(timeout_s: float) -> dict[str, float]:
    """The probe's time limits where all of it has less than the usual time: it then ends by itself before."""
    from nodegate.node_side.probe.main import NVIDIA_SMI_LIMIT_S, SECTIONS  # noqa: PLC0415 - all of the node's side

    share = timeout_s / USUAL_S
    sections = {name: limit_s * share for name, (_, limit_s) in SECTIONS.items()}
    return {**sections, "nvidia_smi": NVIDIA_SMI_LIMIT_S * share}


def decode(raw: bytes, *, received_epoch_s: float = 0.0, round_trip_s: float = 0.0) -> ProbeDocument:
    """The document in what a node sent, or in a recording.

    On the wire it is one line, compressed; what a login script printed before it is ignored. Plain JSON is accepted.

    Raises:
        CannotMeasure: it is too large, not JSON, or not as in docs/reference/probe-document.md.
    """
    sent = _object(_WIRE.json(raw.decode("utf-8", "replace")), "the document")
    document = document_of(sent, received_epoch_s=received_epoch_s, round_trip_s=round_trip_s)
    for name, section in document.sections.items():
        data = _object(section, f"section {_quoted(name)}")
        if "data" not in data and data.get("why") not in _REASONS:
            raise CannotMeasure(f"section {_quoted(name)} has neither data nor a known reason", next_step=_NEXT_STEP)
    for key in ("uid", "epoch_s", "duration_s"):
        value = sent.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1 << 53:
            raise CannotMeasure(f"the document's {key} is {_quoted(value)}, expected a number", next_step=_NEXT_STEP)
    return document


def _object(value: object, what: str) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise CannotMeasure(f"{what} is {type(value).__name__}, expected an object", next_step=_NEXT_STEP)


def _quoted(value: object) -> str:
    """A value from the node for a message: one printable line, bounded."""
    if isinstance(value, str):
        return repr(value[:120])
    return str(value)[:120] if isinstance(value, (int, float)) else type(value).__name__


def program(
    *,
    sections: Sequence[str] | None = None,
    limits_s: Mapping[str, float] | None = None,
    programs: Sequence[str] = (),
    folders: Sequence[str] = (),
    lent: bool = False,
) -> bytes:
    """The source to give to `python3 -` on a node.

    Args:
        sections: the sections of the document to read; None: all.
        limits_s: time limits in seconds, in place of a section's own.
        programs: what is looked for on the node in addition to the usual tools.
        folders: where a file is written, read back and removed.
        lent: an engine's job has lent the node to the run: that job is not listed there.

    Raises:
        UsageError: pynvml is not installed here, or is not the one of nvidia-ml-py.
    """
    return pack(
        main=f"{PACKAGE}.main",
        packages=[PACKAGE],
        options={
            "sections": None if sections is None else list(sections),
            "limits_s": dict(limits_s or {}),
            "programs": list(programs),
            "folders": list(folders),
            **({"lent": True} if lent else {}),
        },
        purpose="reads the state of this node and writes one JSON document; it leaves nothing behind.",
    )
