"""The gate: a node whose boards are not those that a run accepted gets no job until they are."""

import json
from collections.abc import Mapping
from pathlib import Path

from nodegate.exit_codes import Exit
from nodegate.files import strict_json
from nodegate.files.bounded import read_trusted
from nodegate.text import shown, some

STATE = "/var/lib/nodegate"  # what stays on a node over a boot
FILE = "passed"
SCHEMA = "nodegate.passed/1"
_MOST_BYTES = 64 << 10
_MOST_NAMED = 2


def text_of(run: str, epoch_s: float, serials: Mapping[str, str]) -> str:
    """The file that an accepting run leaves on a node: the serial numbers of its parts, by their names in the node."""
    return json.dumps({"schema": SCHEMA, "run": run, "epoch_s": epoch_s, "serials": dict(serials)}) + "\n"


def held_back(file: Path, serials: Mapping[str, str]) -> tuple[Exit, str] | None:
    """Why the node may not carry work, as an answer's exit and line; None if it has passed as it is.

    A board that passed and is not seen now leaves it open: it may be gone, or hide its number; how many there should be
    is for the checks. A file that cannot be believed says nothing on the node.
    """
    try:
        passed = _serials(read_trusted(file, _MOST_BYTES))
    except FileNotFoundError:
        return Exit.UNFIT, "unfit: node: not passed yet: no run has accepted it"
    except (OSError, ValueError, RecursionError) as said:
        return Exit.UNKNOWN, f"could not tell: {file}: {said}"
    if not serials:
        return Exit.UNKNOWN, "could not tell: no serial number can be read, so it may have passed or not"
    known = set(passed.values())
    new = [f"{slot} S/N {serial}" for slot, serial in serials.items() if serial not in known]
    if new:
        return Exit.UNFIT, f"unfit: {new[0].partition(' S/N')[0]}: not passed yet: {some(new, _MOST_NAMED)} is new here"
    if gone := sorted(slot for slot, serial in passed.items() if serial not in serials.values()):
        return Exit.UNKNOWN, f"could not tell: {some(gone, _MOST_NAMED)} passed and shows no serial number now"
    return None


def _serials(raw: bytes) -> dict[str, str]:
    value = strict_json.loads(raw) if len(raw) <= _MOST_BYTES else None
    serials = value.get("serials") if isinstance(value, dict) and value.get("schema") == SCHEMA else None
    if not isinstance(serials, dict) or not all(isinstance(each, str) for each in serials.values()):
        raise ValueError("damaged; the next run that accepts this node writes it again")
    return {shown(slot): serial for slot, serial in serials.items()}
