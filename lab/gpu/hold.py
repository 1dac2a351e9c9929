"""Node side: hold a part of a GPU's memory and do nothing, as a forgotten job does. Python 3.6."""

import sys
import time

from nodegate.node_side.load import cuda
from nodegate.node_side.load.place import answer_within, see_only

ANSWER_S = 60.0


def main(uuid: str, pci: str, share: float, seconds: float) -> None:
    """Take this share of the free memory, say so, and keep it for a while."""
    see_only([uuid])
    answer_within(ANSWER_S)
    api = cuda.Cuda()
    api.context(api.device(pci))
    api.allocate(int(api.memory()[0] * share) & ~0xFF)
    answer_within(0)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    time.sleep(seconds)
