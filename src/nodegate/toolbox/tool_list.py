"""The tools that measurements use: their names, the usual folders, and how to get one."""

from collections.abc import Iterable
from dataclasses import dataclass

from nodegate.errors import TOOL
from nodegate.launchers import LAUNCHERS

MPI = "_mpi"  # the ending of a collective that is built with MPI=1 (nccl-tests: NAME_SUFFIX=_mpi)
COLLECTIVES = tuple(
    f"{name}_perf"
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce")
)
OTHERWISE = "or bring it with --tools DIR, or set an image with nodegate_image (nodegate explain tools)"


@dataclass(frozen=True)
class Package:
    """Tools that come together. `get` is one line on how to get them; `needs` says what cannot be measured without."""

    names: tuple[str, ...]
    get: str
    needs: str


@dataclass(frozen=True)
class CublasPlaces:
    """Where a burn looks for cuBLAS before the node's own places: (who named it, folder or file) in order.

    `own_kernels`: it shall use none. `not_brought`: why what --tools has is not on the node, or "".
    """

    places: tuple[tuple[str, str], ...] = ()
    own_kernels: bool = False
    not_brought: str = ""


PACKAGES = (
    Package(
        ("gpu_burn",),
        f"build github.com/wilicc/gpu-burn into /opt/gpu-burn, {OTHERWISE}",
        "compute under load",
    ),
    Package(
        ("nvbandwidth",),
        f"build github.com/NVIDIA/nvbandwidth into /opt/nvbandwidth, {OTHERWISE}",
        "GPU copies",
    ),
    Package(
        ("ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_read_lat"),
        f"install the package perftest (apt or dnf), {OTHERWISE}",
        "RDMA links",
    ),
    Package(
        (*COLLECTIVES, *(name + MPI for name in COLLECTIVES)),
        f"build github.com/NVIDIA/nccl-tests (MPI=1 for several nodes) into /opt/nccl-tests/build, {OTHERWISE}",
        "NCCL collectives",
    ),
    *(Package((each.name,), each.get, "collectives over nodes") for each in LAUNCHERS.values()),
    Package(("py-spy",), "pip install --target tools py-spy, and give --tools tools", "stacks of hanging jobs"),
    Package(("dcgmi",), "install datacenter-gpu-manager-4-cuda12, or the one of your CUDA", "DCGM diagnostics"),
)
NAMES = tuple(name for package in PACKAGES for name in package.names)

# In addition to PATH: where the build instructions of the tools, HPC-X, MLNX_OFED and cloud images put them.
USUAL_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/opt/nccl-tests",
    "/usr/local/nccl-tests",
    "/usr/local/nccl-tests/build",
    "/opt/gpu-burn",
    "/opt/gpu_burn",
    "/usr/local/gpu-burn",
    "/opt/nvbandwidth",
    "/opt/nvbandwidth/build",
    "/usr/local/nvbandwidth",
    "/opt/perftest",
    "/opt/perftest/bin",
    "/opt/hpcx/ompi/bin",
    "/opt/hpcx-*/ompi/bin",
    "/usr/mpi/gcc/openmpi*/bin",
    "/opt/amazon/openmpi/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/lib/*-linux-gnu/openmpi/bin",
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/usr/local/cuda/bin",
    "/usr/local/cuda/extras/*",
)

# What to do about a missing library, by the start of its name.
_LIBRARIES = (
    (("libcudart", "libcublas", "libcurand", "libnvrtc"), "install that version of the CUDA runtime"),
    (("libcuda.", "libnvidia-"), "install the NVIDIA driver"),
    (("libnccl",), "install libnccl2"),
    (("libmpi", "libopen-", "liboshmem", "libucp", "libucs"), "install the MPI that it was built with"),
    (("libibverbs", "libibumad", "librdmacm", "libmlx5"), "install rdma-core (libibverbs1, librdmacm1, libibumad3)"),
    (("GLIBC", "CXXABI", "libstdc++"), "build it on this distribution, or use nodegate_image"),
)


def how_to_get(names: Iterable[str]) -> str:
    """One line on how to get the first of these tools."""
    return _package(names).get


def lacks(names: Iterable[str]) -> str:
    """The code of what a node lacks that has none of these tools: the same for all tools that come together."""
    return f"{TOOL}{_package(names).names[0]}"


def _package(names: Iterable[str]) -> Package:
    wanted = frozenset(names)
    other = Package(tuple(sorted(wanted)), f"install it, {OTHERWISE}", "")
    return next((package for package in PACKAGES if wanted.intersection(package.names)), other)


def how_to_start(missing: Iterable[str]) -> str:
    """One line on what to do about libraries that a tool needs and the node lacks."""
    names = list(missing)
    steps = (step for starts, step in _LIBRARIES if any(name.startswith(starts) for name in names))
    if step := next(steps, ""):
        return f"{step}, or add the folder that has it to /etc/ld.so.conf.d and run ldconfig"
    return "install the package that has it, or add its folder to /etc/ld.so.conf.d and run ldconfig"
