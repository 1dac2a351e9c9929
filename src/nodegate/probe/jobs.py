"""Jobs and processes on the node now. Section `jobs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.probe import readings as read
from nodegate.probe.section import object_in
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class DeviceUser:
    """A process that has a GPU's device node open."""

    pid: int
    name: str
    uid: int


@dataclass(frozen=True)
class Jobs:
    """What runs on the node now."""

    slurm_jobs: Known[tuple[str, ...]]
    gpu_users: Known[tuple[DeviceUser, ...]]
    listening_ports: Known[frozenset[int]]


def parse(data: object) -> Jobs:
    """The data of section `jobs`.

    Raises:
        CannotMeasure: it is not an object.
    """
    found = object_in("jobs", data)
    return Jobs(
        slurm_jobs=read.mapped(read.items(found, "slurm"), lambda ids: tuple(_job_id(one) for one in ids)),
        gpu_users=read.mapped(read.items(found, "gpu_users"), lambda users: tuple(_user(one) for one in users)),
        listening_ports=read.mapped(read.items(found, "listening_ports"), _ports),
    )


def _job_id(value: object) -> str:
    return shown(value)


def _user(entry: object) -> DeviceUser:
    """A holder that cannot be read is still a holder."""
    data = value_or(read.record(entry), {})
    return DeviceUser(
        pid=value_or(read.integer(data, "pid"), 0),
        name=value_or(read.text(data, "comm"), "unknown"),
        uid=value_or(read.integer(data, "uid"), -1),
    )


def _ports(values: Sequence[object]) -> Known[frozenset[int]]:
    ports = [read.whole(value) for value in values]
    bad = next((port for port in ports if isinstance(port, Unknown)), None)
    return bad if bad is not None else frozenset(port for port in ports if not isinstance(port, Unknown))
