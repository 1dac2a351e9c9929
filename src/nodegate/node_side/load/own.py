"""nodegate's own kernels on one GPU: compiled for it, and queued with the arguments that they take."""

import ctypes
from typing import Any, Dict, List, Tuple

from nodegate.node_side.load import cuda, operands, products, ptx

_COMPARE_BLOCKS = 1024


def that_fits(matrix: int, size: int, room: int) -> int:
    """The largest size up to the requested one, of which two operands and three results fit."""
    n = max(matrix // products.STEP, 1) * products.STEP
    while n > products.STEP and 5 * n * n * size > room:
        n = max(n // 2 // products.STEP, 1) * products.STEP
    if 5 * n * n * size > room:
        raise cuda.CudaError("too little memory", -1, f"{room} bytes")
    return n


class Words:
    """Memory as 32-bit words: filled by a hash, and compared."""

    def __init__(self, api: cuda.Cuda, stream: int) -> None:
        self._cuda, self._stream = api, stream
        module = api.module(ptx.common())
        self._fill, self._compare = (api.kernel(module, name) for name in (ptx.FILL, ptx.COMPARE))

    def fill(self, address: int, size: int, seed: int, masks: operands.Masks) -> None:
        """Queue the writing of `size` bytes."""
        pairs = size // 8
        words = [ctypes.c_uint32(each) for each in (pairs, seed, masks.and0, masks.or0, masks.and1, masks.or1)]
        grid = (pairs + ptx.THREADS - 1) // ptx.THREADS, 1
        args = [ctypes.c_uint64(address), *words]
        self._cuda.launch(self._fill, grid, ptx.THREADS, args, stream=self._stream, about=ptx.FILL)

    def compare(self, left: int, right: int, size: int, count: int, first: int) -> None:
        """Queue a comparison, which adds to the word at `count` and lowers the one at `first`."""
        args = [ctypes.c_uint64(left), ctypes.c_uint64(right), ctypes.c_uint32(size // 16)]
        args += [ctypes.c_uint64(count), ctypes.c_uint64(first)]
        grid = _COMPARE_BLOCKS, 1
        self._cuda.launch(self._compare, grid, ptx.THREADS, args, stream=self._stream, about=ptx.COMPARE)


class Product:
    """A matrix product by the kernels of products.py: `name` is fma or mma.sync."""

    def __init__(self, api: cuda.Cuda, stream: int, dtype: str, capable: "Tuple[int, ...]") -> None:
        """Compile it. Raises CudaError: nodegate has none for this GPU."""
        tensor = dtype == products.TENSOR
        if tensor and capable < (8, 0):
            found = "{}.{}".format(*capable)
            raise cuda.CudaError("no kernel", -1, f"{dtype} needs compute capability 8.0, this GPU has {found}")
        self.name = "mma.sync" if tensor else "fma"
        self._cuda, self._stream, self._dtype = api, stream, dtype
        self._shared = products.TENSOR_SHARED if tensor else 0
        self._kernel = api.kernel(api.module(products.product(dtype)), products.PRODUCT, self._shared)

    def queue(self, left: int, right: int, result: int, n: int) -> None:
        """Queue result[i][j] = sum over k of left[i][k] * right[j][k]."""
        rows, columns = products.tile(self._dtype)
        args: List[Any] = [ctypes.c_uint64(each) for each in (left, right, result)]
        args.append(ctypes.c_uint32(n))
        how: Dict[str, Any] = {"stream": self._stream, "shared": self._shared, "about": products.PRODUCT}
        self._cuda.launch(self._kernel, (n // columns, n // rows), ptx.THREADS, args, **how)
