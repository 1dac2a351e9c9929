"""Whether the kernel for Hopper is right on this very board: it must give the bits that the kernel by mma.sync gives.

The operands are such that every sum is exact in fp32, so that both kernels must give equal bits in whatever order they
add. It has a process of its own: a kernel that breaks its context, or its process, costs that process and no burn.
Unless all goes well, and the kernel is as fast as the other, the burn takes mma.sync and says why. That by itself
says nothing against the GPU: mma.sync's results are checked by the host, as ever.
"""

import array
import functools
from typing import Callable, Dict, NamedTuple

from nodegate.node_side.load import cuda, hopper, operands, own, place

PRODUCTS = 200  # all compared: about 0.4 s on an H100
_TIMED = 5
_OTHER = 0x5A5A5A5A  # what a result holds before it is computed
_NONE = 0xFFFFFFFF


class Job(NamedTuple):
    """The GPU, the size of the matrices, the share of its free memory that may be used, and the time."""

    uuid: str
    pci: str
    matrix: int
    memory: float
    limit_s: float


def run(job: Job) -> Dict[str, object]:
    """{"used": whether the burn may use the kernel, "reason": why, or why not, "faster": how much}; {}: no Hopper."""
    place.see_only([job.uuid])
    place.answer_within(job.limit_s)
    try:
        api = cuda.Cuda()
        device = api.device(job.pci)
        if own.capability(api, device) != hopper.CAPABILITY:
            return {}
        api.context(device)
        found = _proven(api, device, job)
    except cuda.CudaError as error:
        found = {"used": False, "reason": str(error)}
    place.answer_within(0)
    return found


def _proven(api: cuda.Cuda, device: int, job: Job) -> "Dict[str, object]":
    stream = api.stream()
    n = own.that_fits(job.matrix, operands.BYTES[hopper.DTYPE], int(api.memory()[0] * job.memory))
    size = n * n * operands.BYTES[hopper.DTYPE]
    left, right, by_sync, by_wgmma, counts = [api.allocate(each) for each in (size, size, size, size, 16)]
    words = own.Words(api, stream)
    words.fill(left, size, operands.SEED_LEFT, operands.EXACT)
    words.fill(right, size, operands.SEED_RIGHT, operands.EXACT)
    older, newer = own.Product(api, stream, hopper.DTYPE, hopper.CAPABILITY), own.Wgmma(api, stream, device)
    for result in (by_sync, by_wgmma):
        api.set_words(result, _OTHER, size // 4, stream)
    older_s = _seconds(api, stream, functools.partial(older.queue, left, right, by_sync, n))
    newer_s = _seconds(api, stream, functools.partial(newer.queue, left, right, by_wgmma, n))
    newer.check()
    api.set_words(counts, 0, 1, stream)
    api.set_words(counts + 4, _NONE, 1, stream)
    for _ in range(PRODUCTS):
        newer.queue(left, right, by_wgmma, n)
        words.compare(by_sync, by_wgmma, size, counts, counts + 4)
    api.wait(stream)
    newer.check()
    different, first = array.array("I", api.read(counts, 8))
    if first != _NONE:  # the count may have gone round to 0: it has 32 bits
        place_of = divmod(first * 4 // operands.BYTES[hopper.DTYPE], n)
        why = "{} words of {} products differ from mma.sync's, the first at row {}, column {}"
        why = why.format(different or 1 << 32, PRODUCTS, *place_of)
        return {"used": False, "reason": why}
    faster = round(older_s / newer_s, 3)
    if faster < 1:
        return {"used": False, "reason": "slower than mma.sync", "faster": faster}
    return {"used": True, "reason": f"equal to mma.sync in {PRODUCTS} products of {n} x {n}", "faster": faster}


def _seconds(api: cuda.Cuda, stream: int, queue: Callable[[], None]) -> float:
    """The time of a product, after a first one."""
    start, end = api.event(), api.event()
    queue()
    api.record(start, stream)
    for _ in range(_TIMED):
        queue()
    api.record(end, stream)
    api.wait(stream)
    return max(api.elapsed_s(start, end), 1e-9) / _TIMED
