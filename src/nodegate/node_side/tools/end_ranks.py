"""Node side: end what a launch over several nodes left on this node, now or when the run ends.

Ranks on other nodes are not the controller's children: mpirun's daemon, or Slurm's, starts them. They have a mark in
their environment and in their shell's arguments, and are found by it. Standard input says {"mark": ..., "stay": ...}.
With `stay` it prints a line and waits for its end: SIGTERM of the guard, which comes when the controller closes or
dies. Then every process with the mark is ended.
"""

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

SWEEP_S = 1.5  # the guard gives 2 s from SIGTERM to SIGKILL
DAEMONS = ("orted", "prted")  # of a marked process they are ours too, and may hang


def read(pid: int, name: str) -> bytes:
    """A file of /proc; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def row(pid: int) -> "tuple[int, str, str]":
    """Parent, state and name of a process."""
    head, _, tail = read(pid, "stat").decode("utf-8", "replace").rpartition(")")
    fields = tail.split()
    return (int(fields[1]), fields[0], head.partition("(")[2]) if len(fields) > 1 else (0, "X", "")


def marked(mark: str) -> "dict[int, str]":
    """{pid: 'pid name state'} of living processes with the mark, and of the daemons that hold it."""
    ours: set[int] = set()  # this process and its parents
    pid = os.getpid()
    while pid > 0 and pid not in ours:
        ours.add(pid)
        pid = row(pid)[0]
    found, sign = {}, mark.encode()
    for name in os.listdir("/proc"):
        pid = int(name) if name.isdigit() else 0
        if not pid or pid in ours or not (sign in read(pid, "environ") or sign in read(pid, "cmdline")):
            continue
        parent, state, command = row(pid)
        if state not in "ZX":
            found[pid] = f"{pid} {command} {state}"
        above = row(parent)
        if above[2] in DAEMONS and parent not in ours and above[1] not in "ZX":
            found[parent] = f"{parent} {above[2]} {above[1]}"
    return found


def sweep(mark: str) -> "list[str]":
    """End all of them; what is still alive waits in the kernel and is reported."""
    end = time.monotonic() + SWEEP_S
    quiet = 0
    living: dict[int, str] = {}
    while time.monotonic() < end and quiet < 2:
        living = marked(mark)
        quiet = 0 if living else quiet + 1
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return sorted(living.values())


def main() -> None:
    """See above."""
    request: dict[str, Any] = json.load(sys.stdin)
    ended: list[int] = []
    if request["stay"]:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda number, _: ended.append(number))
        sys.stdout.write("kept\n")
        sys.stdout.flush()
    while request["stay"] and not ended:
        time.sleep(0.2)
    sys.stdout.write(json.dumps({"stuck": sweep(str(request["mark"]))}) + "\n")


if __name__ == "__main__":
    main()
