"""The program of the copies, run for real on stand-ins for NVIDIA's libraries."""

import sys
from functools import partial

from support import cuda

from nodegate.measure import own_program
from nodegate.node_side.load.copies import WIRE

SOURCES = ("copies.c", "libcudamock.c", "memory.c")
SMALL = {"seconds": 1.0, "size": 1 << 16, "kernel_size": 1 << 18, "peers": "none"}


library = partial(cuda.library, *SOURCES)  # libcuda.so.1, whose copies take time


def environment(scenario):
    """The variables with which a program finds the stand-ins and this scenario."""
    return cuda.environment(scenario, *SOURCES)


def program(**options):
    """The program as it goes to a node."""
    return own_program.program("copies", options=options, purpose="copies for a test.")


def run(scenario, folder, *, root=None, python=sys.executable, **options):
    """The document of short copies of small buffers; `root` is a made file tree in place of /sys."""
    variables = environment(scenario.write(folder / "scenario.conf"))
    if root is not None:
        variables["NODEGATE_PROBE_ROOT"] = str(root)
    return cuda.decoded(cuda.ran(program(**dict(SMALL, **options)), variables, python), WIRE)
