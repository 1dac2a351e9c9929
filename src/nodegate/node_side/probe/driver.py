"""Section `driver`: the NVIDIA kernel driver's own files and device nodes. Needs neither NVML nor root."""

import errno
import functools
import os
import re
from typing import Dict, List

from nodegate.node_side.probe import child, children, files

FOLDER = "/proc/driver/nvidia"
OPEN_LIMIT_S = 15.0  # without persistence mode an open initialises the GPU, which takes seconds


def device_nodes() -> List[str]:
    """The device nodes of GPUs: "nvidia0", "nvidia1", ..."""
    return [name for name in files.entries("/dev") if re.match(r"nvidia[0-9]+\Z", name)]


def read() -> object:
    """The data of the section."""
    return {
        "loaded": os.path.isdir(files.rooted("/sys/module/nvidia")),
        "version": files.text(FOLDER + "/version"),
        "gpus": _gpus(),
        "devices": _devices(),
    }


def _gpus() -> object:
    if not os.path.isdir(files.rooted(FOLDER)):
        return {}
    return {name: files.text(f"{FOLDER}/gpus/{name}/information") for name in files.entries(FOLDER + "/gpus")}


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
