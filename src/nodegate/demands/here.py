"""The demands of the machine that nodegate runs on."""

import os
import socket
from pathlib import Path

from nodegate.demands.demands import MOST_BYTES, Demands, parse
from nodegate.errors import UsageError
from nodegate.files.bounded import read_trusted

FILE = Path("/etc/nodegate/demands.yaml")


def demands_here(given: Path | None = None) -> Demands | None:
    """The demands in the file that was named, else in /etc/nodegate/demands.yaml; None where that does not exist.

    One whose node has another name is taken where it names a chassis: then `of_another` decides.

    Raises:
        UsageError: it cannot be read, others can write it, it is damaged, or it is another node's.
    """
    file = given or FILE
    if given is None and not os.path.lexists(file):
        return None
    try:
        raw = read_trusted(file.resolve(strict=True), MOST_BYTES)
    except OSError as said:
        hint = "give it to root alone: chown root, chmod 644" if isinstance(said, PermissionError) else ""
        raise UsageError(f"cannot be used: {said.strerror or said}", file=str(file), hint=hint) from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"larger than {MOST_BYTES >> 20} MiB", file=str(file))
    demands = parse(raw, str(file))
    if not demands.serial and not is_own_name(demands.node):
        raise UsageError(_of_another(demands), file=str(file))
    return demands


def of_another(demands: Demands, *, serial_is_ours: bool | None) -> str:
    """Why the demands are another machine's; empty where they are this one's.

    Args:
        demands: as read here.
        serial_is_ours: whether the chassis has the serial number that they name; None if it could not be read.
    """
    if serial_is_ours or (serial_is_ours is None and is_own_name(demands.node)):
        return ""
    more = f", chassis {demands.serial}" if serial_is_ours is False else ""
    return f"{demands.place}: {_of_another(demands, more)}"


def is_own_name(name: str) -> bool:
    """Whether this machine is called so, by itself or by Slurm."""
    own = (socket.gethostname(), os.environ.get("SLURMD_NODENAME", ""))
    return any(_same_host(name, each) for each in own if each)


def _same_host(one: str, other: str) -> bool:
    """Whether two names may be one machine's: alike, or alike but for a domain that only one of them has."""
    one, other = one.casefold().rstrip("."), other.casefold().rstrip(".")
    short = (one.partition(".")[0], other.partition(".")[0])
    return one == other or (short[0] == short[1] and ("." not in one or "." not in other))


def _of_another(demands: Demands, more: str = "") -> str:
    return f"the demands of {demands.node}{more}, this is {socket.gethostname()}"
