"""Section `driver`: the NVIDIA kernel driver's own files and device nodes. Needs neither NVML nor root."""

import errno
import functools
import os
import re
import signal
import time
from typing import Dict, List

from nodegate.node_side.probe import child, children, files

FOLDER = "/proc/driver/nvidia"
_GPUS = FOLDER + "/gpus"
OPEN_LIMIT_S = 15.0  # without persistence mode an open initialises the GPU, which takes seconds
_MOST_HELD = 64


def device_nodes() -> List[str]:
    """The device nodes of GPUs: "nvidia0", "nvidia1", ..."""
    return [name for name in files.entries("/dev") if re.match(r"nvidia[0-9]+\Z", name)]


def read() -> object:
    """The data of the section."""
    return {
        "loaded": os.path.isdir(files.rooted("/sys/module/nvidia")),
        "version": files.text(FOLDER + "/version"),
        "gpus": {name: files.text(f"{_GPUS}/{name}/information") for name in files.entries(_GPUS)},
        "devices": _devices(),
    }


def _devices() -> Dict[str, object]:
    """The result of opening each device node: "ok" or an errno; EPERM means that this login's cgroup hides a GPU."""
    names = device_nodes()
    limit_s = min(OPEN_LIMIT_S, child.remaining_s())
    opened = children.run({name: child.Task(functools.partial(_opened, "/dev/" + name), limit_s) for name in names})
    return {name: "ETIMEDOUT" if outcome.unknown else outcome.value for name, outcome in opened.items()}


def _opened(path: str) -> str:
    child.note(path)
    try:
        os.close(os.open(files.rooted(path), os.O_RDONLY))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, f"errno {error.errno}")
    return "ok"


def hold_open() -> None:
    """Start a process for each GPU that holds its device node open; it waits for none of them.

    Without persistence mode the driver takes a GPU down when its last user closes it, and needs 3 to 8 s to bring it up
    again, one GPU after the other: with eight, longer than a section may take. So they come up at the same time and
    stay up until `children.end_all`. One that hangs there costs nothing else.
    """
    parent = os.getpid()
    for name in device_nodes()[:_MOST_HELD]:
        try:
            pid = os.fork()
        except OSError:  # no more processes allowed
            return
        if pid == 0:
            _hold(files.rooted(f"/dev/{name}"), parent)


def _hold(path: str, parent: int) -> None:
    """The child's whole life: it ends with its parent, or when that ends its children."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    child.detach(parent)
    try:
        os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os._exit(0)
    while True:
        time.sleep(3600)
