"""One section of the probe document: its data, or the reason why the node has none, and what to do about it."""

from collections.abc import Mapping

from nodegate.errors import CannotMeasure
from nodegate.probe import readings as read
from nodegate.unknown import Unknown, Why

EVIDENCE = "read what it sent in the node's facts.json"
ROOT = "run as root, or set ansible_become for this node"
HUNG = "the driver may hang: read the kernel log, then reboot the node"

_NEXT_STEPS = {
    ("nvml", Why.MISSING): "install the NVIDIA driver; in a container, mount libnvidia-ml.so.1",
    ("nvml", Why.FAILED): "run nvidia-smi on the node; if driver and library differ, reload the driver or reboot",
    ("nvml", Why.LOST): "power-cycle the node: a GPU does not respond",
    ("driver", Why.MISSING): "install and load the NVIDIA driver",
    ("infiniband", Why.MISSING): "load the RDMA driver (mlx5_ib), or deselect the RDMA checks for this node",
    ("services", Why.MISSING): "no systemd on this node: query its own service manager",
    ("kernel_log", Why.DENIED): f"{ROOT}, or let the login read the journal (group systemd-journal)",
    ("kernel_log", Why.MISSING): f"{ROOT}, or keep a journal on the node",
    **{("mounts", why): "a mount hangs: check the file servers" for why in (Why.TIMEOUT, Why.HUNG)},
    **{(section, why): HUNG for section in ("nvml", "driver") for why in (Why.TIMEOUT, Why.HUNG)},
}
_NEXT_STEPS_BY_WHY = {
    Why.DENIED: ROOT,
    Why.TIMEOUT: "the node is slow: check its load and kernel log, then run again",
    Why.BUSY: "the node's processors are busy: look at what runs on it (top), then run again",
    Why.HUNG: "a process on the node cannot be ended: read the kernel log, then reboot the node",
    Why.LOST: "power-cycle the node: a device does not respond",
}


def section_data(sections: Mapping[str, object], name: str) -> object:
    """The data of a section. Raises CannotMeasure: the section is absent, or gives the reason why it has none."""
    data = read.taken(read.mapping(sections, name), "data")
    if isinstance(data, Unknown):
        raise CannotMeasure(f"{name} could not be read: {data}", next_step=next_step(name, data.why), lacks=name)
    return data


def next_step(section: str, why: Why) -> str:
    """What to do about a section that has no data."""
    return _NEXT_STEPS.get((section, why)) or _NEXT_STEPS_BY_WHY.get(why, EVIDENCE)


def section_object(sections: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The data of a section whose data must be an object.

    Raises:
        CannotMeasure: it is not; the section is absent, or gives the reason why it has none.
    """
    found = read.record(section_data(sections, name))
    if isinstance(found, Unknown):
        raise CannotMeasure(f"{name} cannot be read: {found}", next_step=EVIDENCE, lacks=name)
    return found
