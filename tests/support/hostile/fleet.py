"""A fleet of healthy and hostile nodes behind real sshds and false ones, each on an address of its own.

    with HostileFleet(tmp_path, 64) as fleet:
        (tmp_path / "hosts.yaml").write_text(fleet.inventory())

Healthy nodes are this machine with a guard and a lock of their own; in place of the probe's document of this machine
comes the one of a made-up H100 node. The kinds of the others are in kinds.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from fleet.machine import Machine
from support.hostile.kinds import HEALTHY, Kind, shares
from support.hostile.servers import Server
from support.sshd import Fleet

from lab.keys import public_key
from lab.processes import naming

INTERPRETER = Path(__file__).with_name("interpreter.py")
BY_INTERPRETER = {*re.findall(r'^    "([a-z-]+)": ', INTERPRETER.read_text(), re.MULTILINE)}
YEARS_S = {"clock-ahead": 5 * 365.25 * 86400, "clock-behind": -5 * 365.25 * 86400}
_NODE = '#!/bin/sh\nexec /usr/bin/python3 -I -S {interpreter} {kind} {document} "$@"\n'


@dataclass(frozen=True)
class HostileNode:
    """One name of the inventory."""

    name: str
    kind: Kind
    address: str
    port: int
    python: Path
    lock: Path


class HostileFleet:
    """`kinds` nodes n0001, n0002, ...; a context manager.

    Args:
        folder: where everything lies.
        kinds: the kind of each node, or how many nodes there are: then with the usual shares of hostile ones.
    """

    def __init__(self, folder, kinds):
        self._folder = folder
        self.kinds = shares(kinds) if isinstance(kinds, int) else list(kinds)
        behind_sshd = [kind.sshd for kind in self.kinds if not _is_false(kind)]
        self._fleets = {
            own: Fleet(folder, behind_sshd.count(own), name=f"s{at}", **dict(own))
            for at, own in enumerate(sorted(set(behind_sshd)))
        }
        self.nodes = list(self._made())
        first = next(iter(self._fleets.values()))
        self.servers = [
            Server(node.address, node.port, node.kind.serve, first.host_keys[0])
            for node in self.nodes
            if _answers(node.kind)
        ]
        self._stack = contextlib.ExitStack()

    def _made(self):
        free = {own: iter(fleet.nodes) for own, fleet in self._fleets.items()}
        first = next(iter(self._fleets.values()))
        net, now_s = first.addresses[0].split(".")[1], time.time()
        before = 0
        for at, kind in enumerate(self.kinds):
            name, folder = f"n{at + 1:04}", self._folder / f"n{at + 1:04}"
            folder.mkdir()
            if _is_false(kind):
                address, port = f"127.{net}.{200 + at // 250}.{1 + at % 250}", first.port
            else:
                ssh = next(free[kind.sshd])
                address, port = ssh.address, self._fleets[kind.sshd].port
            document, machine = folder / "document.json", before if kind.twin else at
            before = before if kind is HEALTHY else at
            document.write_text(_document(machine, kind, now_s))
            python, does = folder / "python", kind.name if kind.name in BY_INTERPRETER else "healthy"
            python.write_text(_NODE.format(interpreter=INTERPRETER, kind=does, document=document))
            python.chmod(0o755)
            yield HostileNode(name, kind, address, port, python, self._folder / f"n{machine + 1:04}" / "lock")

    def __enter__(self):
        first = next(iter(self._fleets.values()))
        with first.known_hosts.open("a") as known:  # one of the false ones comes as far as its host key
            known.writelines(f"[{s.address}]:{s.port} {public_key(first.host_keys[0])}\n" for s in self.servers)
        with contextlib.ExitStack() as stack:  # what has begun ends where the rest cannot begin
            for each in (*self._fleets.values(), *self.servers):
                stack.enter_context(each)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def inventory(self, connect_s):
        """The fleet as an Ansible YAML inventory."""
        head = next(iter(self._fleets.values())).inventory().split("  hosts:\n")[0]
        keys = " ".join(str(fleet.known_hosts) for fleet in self._fleets.values())
        first = next(iter(self._fleets.values())).known_hosts
        head = head.replace(f"UserKnownHostsFile={first}", f'UserKnownHostsFile="{keys}"')
        head = head.replace("ansible_ssh_timeout: 60", f"ansible_ssh_timeout: {connect_s:g}")
        return f"{head}  hosts:\n" + "".join(
            f"    {node.name}: {{ansible_host: {node.address}, ansible_port: {node.port}, "
            f"ansible_ssh_private_key_file: {self._key(node)}, "
            f"ansible_python_interpreter: {node.python}, nodegate_lock: {node.lock}}}\n"
            for node in self.nodes
        )

    def _key(self, node):
        fleets = self._fleets
        return (fleets.get(node.kind.sshd) or next(iter(fleets.values()))).user_key

    def descendants(self):
        """Every process that a login on these nodes has running now, those without their sshd among them."""
        alone = [int(line.split(" ", 1)[0]) for line in naming(self._folder) if str(INTERPRETER) in line]
        return sorted({*alone, *(pid for fleet in self._fleets.values() for pid in fleet.descendants())})

    def pids(self):
        """Of the real sshds that listen."""
        return [pid for fleet in self._fleets.values() for pid in fleet.pids()]

    def connections(self):
        """How many logins succeeded so far."""
        return sum(fleet.connections() for fleet in self._fleets.values())


def _is_false(kind):
    """Whether no sshd stands behind it."""
    return kind.serve is not None or kind.closed or kind.full


def _answers(kind):
    return _is_false(kind) and not kind.closed


def _document(machine, kind, now_s):
    made = Machine.hgx_h100(f"n{machine + 1:04}", machine + 1, epoch_s=now_s + YEARS_S.get(kind.name, 0.0))
    if kind.name == "hung-driver":
        made.section_fails("nvml", "hung", "waits in os_acquire_rwlock_write at nvmlInit")
    return json.dumps({**made.document(), "epoch_s": "@EPOCH@", "duration_s": "@TOOK@"})


__all__ = ["HEALTHY", "HostileFleet", "HostileNode"]
