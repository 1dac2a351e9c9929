"""The port at which the ranks of a job meet, as the job's own environment names it: MASTER_PORT."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.demands.here import is_own_name
from nodegate.errors import UsageError
from nodegate.text import port_number, shown

_LOOPBACK = ("localhost", "ip6-localhost")


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
