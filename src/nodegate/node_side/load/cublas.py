"""Products of square matrices by cuBLAS. Constants are from cublas_api.h, cublasLt.h and library_types.h."""

import ctypes
import os
import re
from typing import Any, Dict, List, NamedTuple

from nodegate.node_side.load.cuda import Cuda, CudaError
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
NARROW = ("fp8", "fp4")
_WORKSPACE_BYTES = 32 << 20
_ALIKE = 16  # elements with one scale, a byte
_FOUR_ONES = 0x38383838  # in e4m3
_BF16, _FP32, _COMPUTE_FP32 = 14, 0, 68  # cudaDataType, cublasComputeType_t
_KINDS = {"fp8": 28, "fp4": 33}
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # cublasLtMatmulDescAttributes_t; both types are multiplied in this form alone
_SCALES_A, _SCALES_B, _SCALE_MODE_A, _SCALE_MODE_B = 17, 18, 31, 32
_A_SCALE_FOR_16 = 1  # CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
_MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
_handle, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


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


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", _size),
        ("state", _int),
        ("waves", ctypes.c_float),
        ("reserved", _int * 4),
    )


class Room(NamedTuple):
    """Addresses that the products of n x n matrices work with: `scales` has as many 1 as fp4 needs."""

    n: int
    workspace: int
    workspace_bytes: int
    scales: int


def room(api: Cuda, stream: int, n: int, free: int) -> Room:
    """Allocate it; n is a multiple of 128, `free` the free bytes of the GPU."""
    size = min(_WORKSPACE_BYTES, free // 64 & ~0xFF)
    found = Room(n, api.allocate(size), size, api.allocate(n * n // _ALIKE))
    api.set_words(found.scales, _FOUR_ONES, n * n // _ALIKE // 4, stream)
    return found


class Narrow:
    """The product of fp8 (e4m3) or fp4 (e2m1) matrices of one size with a bf16 result, by cublasLt.h.

    Sums of fp8 are kept exact enough to be checked (no "fast accumulation"), so its rate is below the one that is
    advertised. fp4 is NVIDIA's form of it: 16 elements of a row share a scale (e4m3). All scales are 1 here, so their
    order in memory makes no difference.
    """

    def __init__(self, cublas: Cublas, stream: int, dtype: str, within: Room) -> None:
        """Choose the algorithm. Raises CublasError: this library or this GPU does not have this type."""
        self.n, self._cublas, self._stream, self._dtype = within.n, cublas, _handle(stream), dtype
        self._workspace, self._workspace_bytes = _handle(within.workspace), _size(within.workspace_bytes)
        self._operation = self._made("cublasLtMatmulDescCreate", _int(_COMPUTE_FP32), _int(_FP32))
        self._describe(_TRANSPOSE_A, ctypes.c_int32(1))
        self._describe(_TRANSPOSE_B, ctypes.c_int32(0))
        for mode, scales in ((_SCALE_MODE_A, _SCALES_A), (_SCALE_MODE_B, _SCALES_B)) if dtype == "fp4" else ():
            self._describe(mode, ctypes.c_int32(_A_SCALE_FOR_16))
            self._describe(scales, _handle(within.scales))
        self._operand, self._result = self._layout(_KINDS[dtype]), self._layout(_BF16)
        self._algorithm = self._chosen(within.workspace_bytes)

    def product(self, left: int, right: int, result: int) -> None:
        """Queue result[i][j] = sum over k of left[i][k] * right[j][k], as `Cublas.product` does."""
        one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
        operands = _handle(right), self._operand, _handle(left), self._operand
        results = (_handle(result), self._result) * 2  # what is added, times zero, and what comes out
        how = ctypes.byref(self._algorithm), self._workspace, self._workspace_bytes, self._stream
        matrices = one, *operands, zero, *results
        self._cublas.call("cublasLtMatmul", self._cublas.handle, self._operation, *matrices, *how)

    def _chosen(self, workspace_bytes: int) -> Any:
        wish = self._made("cublasLtMatmulPreferenceCreate")
        self._set("cublasLtMatmulPreferenceSetAttribute", wish, _MAX_WORKSPACE, _size(workspace_bytes))
        found, count = _Heuristic(), _int()
        name = "cublasLtMatmulAlgoGetHeuristic"
        asked = self._operation, self._operand, self._operand, self._result, self._result, wish, _int(1)
        self._cublas.call(name, self._cublas.handle, *asked, ctypes.byref(found), ctypes.byref(count))
        if count.value < 1 or found.state:
            raise CublasError(name, found.state, f"no algorithm for {self._dtype}")
        return found.algorithm

    def _describe(self, attribute: int, value: Any) -> None:
        self._set("cublasLtMatmulDescSetAttribute", self._operation, attribute, value)

    def _layout(self, kind: int) -> ctypes.c_void_p:
        sides = ctypes.c_uint64(self.n), ctypes.c_uint64(self.n), ctypes.c_int64(self.n)
        return self._made("cublasLtMatrixLayoutCreate", _int(kind), *sides)

    def _made(self, name: str, *args: object) -> ctypes.c_void_p:
        made = _handle()
        self._cublas.call(name, ctypes.byref(made), *args)
        return made

    def _set(self, name: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._cublas.call(name, of, _int(attribute), ctypes.byref(value), _size(ctypes.sizeof(value)))
