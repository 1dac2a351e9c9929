"""The `nodegate_*` variables of a node: each is declared here, once, with its type and the kind of its value.

From this table follow the names that are known, what is refused, and the typed values that the rest of nodegate reads.
docs/guide/running.md says what each means to a user.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from nodegate.errors import UsageError
from nodegate.node_settings import kinds

PREFIX = "nodegate_"
# nodegate.inventory.connection reads them, with Ansible's own
CONNECTION = frozenset({"command", "host_keys", "job", "lease", "pod", "recordings"})
OWN_KERNELS = "none"
_CUBLAS = f"the folder that has libcublas.so.*, or {OWN_KERNELS} for nodegate's own kernels"


def _variable(kind: Callable[..., object], *, limit: str = "", depth: int = 1, **options: object) -> Any:
    """One variable. `limit` is the limit key that it sets, `depth` how many lists and mappings may be in each other."""
    return field(metadata={"kind": partial(kind, **options), "limit": limit, "depth": depth})


def _mapping(what: str, example: str, **options: Any) -> Any:
    """One variable of names with values."""
    return _variable(kinds.mapping, what=what, example=example, **options)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The variables of one node by their names without `nodegate_`; what is not set is empty or None."""

    # what the node is
    platform: str = _variable(kinds.text)
    rack: str = _variable(kinds.text)
    leaf: tuple[str, ...] = _variable(kinds.listed)
    serial: str = _variable(kinds.text)
    # what it must have: limits of their own, and what only the inventory can demand
    gpus: object = _variable(kinds.anything, limit="gpu.count")
    gsp: object = _variable(kinds.anything, limit="gpu.gsp")
    mig: object = _variable(kinds.anything, limit="gpu.mig")
    nics: object = _variable(kinds.anything, limit="rdma.rails")  # how many, or the devices
    rails: object = _variable(kinds.anything, limit="rdma.rails")
    limits: Mapping[str, object] = _mapping("limit keys to values", "for example {rdma.rails: 4}", depth=2)
    expect: Mapping[str, object] = _mapping("items to values", 'for example {driver: "550.163.01", gpus: 8}', depth=2)
    gaps: Mapping[str, kinds.Gap] = _variable(kinds.gaps, depth=2)
    mounts: tuple[str, ...] = _variable(kinds.listed)
    require: tuple[str, ...] = _variable(kinds.listed)
    ports: tuple[int, ...] = _variable(kinds.ports)
    # its fabric
    fabric_address: str = _variable(kinds.text)
    rdma_port: int | None = _variable(kinds.first_port, last=64_999)
    rdma_tclass: int | None = _variable(kinds.whole, most=255)
    rdma_sl: int | None = _variable(kinds.whole, most=15)
    rdma_gid_index: int | None = _variable(kinds.whole, most=1023)
    # its tools
    tools: Mapping[str, object] = _mapping("tools to paths", "for example {gpu_burn: /opt/gpu-burn/gpu_burn}")
    tool_paths: tuple[str, ...] = _variable(kinds.folders, most=64)
    image: str = _variable(kinds.text)
    cublas: str = _variable(kinds.path_or, word=OWN_KERNELS, hint=_CUBLAS)
    lock: str = _variable(kinds.text)
    # the site file of the run
    site: str = _variable(kinds.text)
    # how NCCL is launched over several nodes
    launcher: str = _variable(kinds.text)
    launch_network: tuple[str, ...] = _variable(kinds.networks)
    mpi_args: tuple[str, ...] = _variable(kinds.arguments, most=64)
    srun: Mapping[str, object] = _mapping("names to values", "{partition: gpu, account: acceptance}")
    srun_args: tuple[str, ...] = _variable(kinds.arguments, most=64)
    nccl_cloud: str = _variable(kinds.text)
    nccl_env: Mapping[str, object] = _mapping("variables to values", "{NCCL_SOCKET_IFNAME: eth0}", most=64)

    # how it is kept free of jobs while it is under load
    hold: str = _variable(kinds.one_of, words=("slurm",))
    slurm_name: str = _variable(kinds.slurm_name)
    slurm_reservation: str = _variable(kinds.slurm_name)

    @property
    def limit_values(self) -> Mapping[str, object]:
        """The limits that the inventory sets, by their keys; of devices that are listed their number."""
        keys = {each.name: each.metadata["limit"] for each in _FIELDS if each.metadata["limit"]}
        own = {key: value for name, key in keys.items() if (value := getattr(self, name)) is not None}
        if isinstance(rails := own.get("rdma.rails"), (list, tuple)):
            own["rdma.rails"] = len(rails)
        return {**self.limits, **own}

    @property
    def rail_devices(self) -> tuple[object, ...] | None:
        """The devices that carry jobs, where the inventory lists them."""
        return next((tuple(each) for each in (self.nics, self.rails) if isinstance(each, (list, tuple))), None)


_FIELDS = fields(NodeSettings)
KNOWN = frozenset(each.name for each in _FIELDS) | CONNECTION


def read(values: Mapping[str, object], refused: Callable[[str, str, str], UsageError]) -> NodeSettings:
    """The settings from the variables of a node; those that are not known are left to who refuses them.

    Args:
        values: the variables by their names without the prefix; text, numbers, true, false, lists, mappings.
        refused: makes the error from a variable's name without the prefix, a message, and a hint.

    Raises:
        UsageError: a value is not of its variable's kind.
    """
    found: dict[str, Any] = {}
    for each in _FIELDS:
        given = kinds.Given(PREFIX + each.name, values.get(each.name), partial(refused, each.name))
        if given.value is not None and not kinds.is_nested_at_most(given.value, each.metadata["depth"]):
            raise given.wrong(": must be a single value, a list of values, or a flat mapping of values")
        found[each.name] = each.metadata["kind"](given)
    return NodeSettings(**found)
