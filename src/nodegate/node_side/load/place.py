"""Where a process runs: only its GPUs are visible, on the CPUs next to the GPU, and it ends if a GPU hangs."""

import contextlib
import os
import signal
from typing import Dict, Iterator, Sequence

from nodegate.node_side.probe import files, pci
from nodegate.node_side.seats import cpus_in

# Settings of a login that would change what is measured, load foreign code, or write to the disk.
_FOREIGN = (
    *("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_PTX_JIT", "CUDA_INJECTION32_PATH"),
    *("CUDA_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"),
    *("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_TF32_OVERRIDE"),
)
_FOREIGN_PREFIXES = ("CUBLAS",)  # CUBLASLT_* and cuBLAS's switches for emulated precision
_LINK = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width")


def see_only(uuids: Sequence[str]) -> None:
    """CUDA uses only these GPUs; nothing is cached on the disk.

    A sick neighbour should not stop cuInit then. That is a hope: cuInit may look at each GPU before it leaves some out.
    """
    for name in [name for name in os.environ if name in _FOREIGN or name.startswith(_FOREIGN_PREFIXES)]:
        del os.environ[name]
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=",".join(uuids), CUDA_CACHE_DISABLE="1")


def answer_within(seconds: float) -> None:
    """Be ended by SIGALRM unless the GPU answers in time; 0: no limit. A call that hangs does not block the signal."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def answering(seconds: float) -> "Iterator[None]":
    """The GPU has to answer in this time, over what is done in this context."""
    answer_within(seconds)
    yield
    answer_within(0)


def go_beside(bus_id: str) -> Dict[str, object]:
    """Bind this process to the CPUs next to a GPU: memory that it pins later is on that NUMA node.

    Returns {"cpus": as sysfs lists them, "numa_node": text, "above": the links above it, "error": why it is not bound,
    or ""}.
    """
    domain, _, rest = bus_id.partition(":")
    address = f"{int(domain, 16):04x}:{rest.lower()}"
    folder = f"{pci.FOLDER}/{address}/"
    listed = files.plain(folder + "local_cpulist").strip()
    found: Dict[str, object] = {"cpus": listed, "numa_node": files.plain(folder + "numa_node").strip(), "error": ""}
    # the bridges above it, nearest first: address, then speed and width of its link, each now and at most
    found["above"] = [
        [each, *(files.plain(f"{pci.FOLDER}/{each}/{name}").strip() for name in _LINK)]
        for each in reversed(pci.above(address))
    ]
    cpus = cpus_in(listed)
    if not cpus:
        return dict(found, error=f"sysfs lists no CPU next to it: {listed[:40]!r}")
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        found["error"] = f"no CPU next to it may be used: {error.strerror}"
    return found
