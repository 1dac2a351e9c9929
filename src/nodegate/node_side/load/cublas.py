"""One product of square matrices by cuBLAS. Constants are from cublas_api.h and library_types.h."""

import ctypes
import os
import re
from typing import Any, Dict, List, NamedTuple

from nodegate.node_side.load.cuda import CudaError
from nodegate.node_side.probe import child

_MAJOR, _MINOR, _PATCH = 0, 1, 2  # libraryPropertyType
_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}
_TRANSPOSED, _AS_IT_IS = 1, 0  # cublasOperation_t
_DEFAULT_ALGORITHM = -1
_NO_REDUCED_REDUCTION = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums stay in fp32
_handle = ctypes.c_void_p
_int = ctypes.c_int


class Type(NamedTuple):
    """How cuBLAS names a dtype: cudaDataType, cublasComputeType_t, and the type of alpha and beta."""

    data: int
    compute: int
    scale: Any


TYPES: Dict[str, Type] = {
    "bf16": Type(14, 68, ctypes.c_float),
    "fp32": Type(0, 68, ctypes.c_float),
    "fp64": Type(1, 70, ctypes.c_double),
}


class CublasError(CudaError):
    """cuBLAS itself cannot be used: not loaded, not started, or not suitable for this GPU."""


def version_of(path: str) -> List[int]:
    """What the library says of itself: [12, 4, 5]. Needs neither GPU nor driver.

    Raises:
        CublasError: it does not load, or does not say.
    """
    library, numbers = _loaded(path), []
    for which in (_MAJOR, _MINOR, _PATCH):
        value = _int()
        _call(library, "cublasGetProperty", _int(which), ctypes.byref(value))
        numbers.append(value.value)
    return numbers


def _loaded(path: str) -> ctypes.CDLL:
    """The library, with the libcublasLt of its own folder: a pip folder is on no search path."""
    child.note("loading " + path)
    beside = os.path.join(os.path.dirname(path), re.sub(r"libcublas\.so", "libcublasLt.so", os.path.basename(path)))
    try:
        if os.path.exists(beside):
            ctypes.CDLL(beside, ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(path)
    except OSError as error:
        raise CublasError("loading " + path, -1, str(error)) from None


def _call(library: ctypes.CDLL, name: str, *args: Any) -> None:
    child.note(name)
    try:
        function = getattr(library, name)
    except AttributeError:
        raise CublasError(name, -1, "this library has no such function") from None
    function.restype = _int
    number = function(*args)
    if number:
        raise CublasError(name, number, _STATUS.get(number, "unknown status"))


class Cublas:
    """cuBLAS in the current context. The order of operations is fixed as long as one stream is used."""

    def __init__(self, path: str, stream: int) -> None:
        """Load and start the library. Raises CublasError: it does not load or does not start."""
        self._library = _loaded(path)
        handle = _handle()
        self.call("cublasCreate_v2", ctypes.byref(handle))
        self.handle = handle
        self.call("cublasSetStream_v2", handle, _handle(stream))
        self.call("cublasSetMathMode", handle, _int(_NO_REDUCED_REDUCTION))
        version = _int()
        self.call("cublasGetVersion_v2", handle, ctypes.byref(version))
        self.version = version.value

    def call(self, name: str, *args: Any) -> None:
        """Call a function of it, or of the libcublasLt that it needs.

        Raises:
            CublasError: it has no such function, or the call failed.
        """
        _call(self._library, name, *args)

    def product(self, dtype: str, n: int, left: int, right: int, result: int) -> None:
        """Queue result[i][j] = sum over k of left[i][k] * right[j][k], all row by row, n x n, at device addresses.

        cuBLAS counts column by column: what it computes is the transpose, right-hand matrix first.
        """
        kind = TYPES[dtype]
        one, zero = ctypes.byref(kind.scale(1)), ctypes.byref(kind.scale(0))
        size, data = _int(n), _int(kind.data)
        first, second, out = ((_handle(each), data, size) for each in (right, left, result))
        form = _int(_TRANSPOSED), _int(_AS_IT_IS), size, size, size
        how = _int(kind.compute), _int(_DEFAULT_ALGORITHM)
        self.call("cublasGemmEx", self.handle, *form, one, *first, *second, zero, *out, *how)
