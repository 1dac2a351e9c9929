"""Every GPU's device node held open while a program looks at the GPUs.

Without persistence mode the driver takes a GPU down when its last user closes it, and needs 3 to 8 s to bring it up
again, one GPU after the other: with eight, longer than a section may take. A process for each GPU opens its node, so
they come up at the same time and stay up until `children.end_all`. One that hangs there costs nothing else.
"""

import os
import signal
import time

from nodegate.node_side.probe import child, driver, files

MOST = 64


def hold_open() -> None:
    """Start the processes; it waits for none of them."""
    parent = os.getpid()
    for name in driver.device_nodes()[:MOST]:
        try:
            pid = os.fork()
        except OSError:  # no more processes allowed
            return
        if pid == 0:
            _hold(files.rooted(f"/dev/{name}"), parent)


def _hold(path: str, parent: int) -> None:
    """The child's whole life: it ends with its parent, or when that ends its children."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)
    child.die_with_parent(parent)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        os._exit(0)
    while True:
        time.sleep(3600)
