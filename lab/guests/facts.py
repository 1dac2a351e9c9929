"""What nodegate's probe reads on a guest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.facts import NodeFacts
from nodegate.node import Connection, Node
from nodegate.probe.collect import collect
from nodegate.transport import Options, connect

if TYPE_CHECKING:
    from pathlib import Path

    from lab.guests.guest import Guest


def facts(guest: Guest, folder: Path) -> NodeFacts:
    """What nodegate's probe reads on a guest, over SSH."""
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(guest.known_host())
    connection = Connection(
        address="127.0.0.1",
        port=guest.ssh_port,
        user="root",
        key_files=(str(guest.image.user_key),),
        python="/usr/bin/python3",
        ssh_args=("-F", "none", "-o", f"UserKnownHostsFile={known_hosts}", "-o", "IdentityAgent=none"),
    )
    session = connect(Node(guest.name, connection=connection), Options())
    try:
        return NodeFacts(collect(session))
    finally:
        session.close()
