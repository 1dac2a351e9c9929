"""Labels of a series to the node, pod and GPU that it is about: one place for all exporters and relabellings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodegate.job.prometheus import Row
from nodegate.job.queries import NODE_LABELS, POD_LABELS, TAG

_NOBODY = frozenset(("", "localhost", "127.0.0.1"))


@dataclass(frozen=True)
class Part:
    """A GPU of the job: the short name of its node, its index (None if unknown), its pod and its model."""

    node: str
    gpu: int | None
    pod: str = ""
    model: str = ""


@dataclass
class Names:
    """What the instant answers say of names: pods and addresses to nodes, uuids to indices."""

    node_of_pod: dict[tuple[str, str], str] = field(default_factory=dict)
    node_of_address: dict[str, str] = field(default_factory=dict)
    gpu_of_uuid: dict[str, tuple[int | None, str]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)  # uuid: pods or processes
    slowed: set[str] = field(default_factory=set)  # uuids of boards that report a slowdown of their hardware

    @classmethod
    def read(cls, rows: Iterable[Row]) -> Names:
        """From the answer to the query `names`."""
        names = cls()
        for row in rows:
            labels = row.metric
            match labels.get(TAG):
                case "uname":
                    names.node_of_address[labels.get("instance", "")] = short(labels.get("nodename", ""))
                case "pod":
                    node = short(labels.get("node", ""))
                    names.node_of_pod[labels.get("namespace", ""), labels.get("pod", "")] = node
                    names.node_of_address.setdefault(labels.get("host_ip", ""), node)
                case "gpu":
                    names.gpu_of_uuid[uuid(labels)] = _index(labels.get("index", "")), labels.get("name", "")
                case "processes" | "holders" as what:
                    names.shared[uuid(labels)] = "processes" if what == "processes" else "pods"
                case "slowdown":
                    names.slowed.add(uuid(labels))
        return names

    def part(self, labels: Mapping[str, str]) -> Part:
        """The part of a GPU's series."""
        pod, space = _pod(labels)
        known, model = self.gpu_of_uuid.get(uuid(labels), (None, ""))
        index = _index(labels.get("gpu", ""))
        nobody = {*_NOBODY, labels.get("pod") if labels.get("pod") != pod else ""}  # the exporter's own
        said = (labels.get(label, "") for label in NODE_LABELS if label != "instance")
        node = next((short(name) for name in said if name not in nobody and not name.startswith("dcgm-exporter-")), "")
        node = node or self.node_of_pod.get((space, pod)) or self.host(labels.get("instance", ""))
        return Part(node, known if index is None else index, pod, labels.get("modelName", model))

    def host(self, instance: str) -> str:
        """The node of a host's series, by its address with a port."""
        bare = instance.rpartition(":")[0] or instance
        return self.node_of_address.get(instance) or self.node_of_address.get(bare) or short(bare)


def short(name: str) -> str:
    """A host name without its domain; an address stays whole."""
    return name if name.replace(".", "").isdigit() or ":" in name else name.partition(".")[0]


def uuid(labels: Mapping[str, str]) -> str:
    """The identity of a board or MIG instance, alike for all exporters; empty if the series has none."""
    board = (labels.get("UUID") or labels.get("uuid") or labels.get("gpu_uuid") or "").removeprefix("GPU-")
    instance = labels.get("GPU_I_ID", "")
    return f"{board}/{instance}" if instance else board


def _pod(labels: Mapping[str, str]) -> tuple[str, str]:
    for pod, space in POD_LABELS[:2]:
        if labels.get(pod):
            return labels[pod], labels.get(space, "")
    container, pod = labels.get("container", ""), labels.get("pod", "")
    exporter = "exporter" in container or pod.startswith("dcgm-exporter-")
    return ("", "") if exporter else (pod, labels.get("namespace", ""))


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else None
