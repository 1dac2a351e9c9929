"""NVIDIA's own daemons, which hold GPUs all day without using them: one list for the node side and for judging.

Exact names, as the kernel cuts them: a load such as dcgmproftester is not a daemon.
"""

from typing import List

from nodegate.node_side.probe import system

_MOST = 15  # characters that the kernel keeps of a name
_MPS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
NAMES = ("nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nv-fabricmanager", "nvidia-imex", *_MPS)
STOP_MPS = "stop MPS (echo quit | nvidia-cuda-mps-control)"


def is_resident(name: str) -> bool:
    """Whether a process of this name (a path and arguments may be around it) is one of the daemons."""
    return _named(name) in [each[:_MOST] for each in NAMES]


def is_mps(name: str) -> bool:
    """Whether it belongs to MPS itself: its control daemon or a server, never one of its clients."""
    return _named(name) in [each[:_MOST] for each in _MPS] and "mps" in name


def mps_daemons() -> "List[int]":
    """The processes of MPS on this node: with a control daemon, every CUDA program would start a server."""
    return [process.pid for process in system.visible() if is_mps(process.comm)]


def _named(name: str) -> str:
    return (name.split() or [""])[0].rpartition("/")[2][:_MOST]
