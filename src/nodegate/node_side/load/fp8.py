"""The product of fp8 (e4m3) matrices with a bf16 result, by cuBLASLt: cublasLt.h, library_types.h.

Sums are kept exact enough to be checked (no "fast accumulation"), so its rate is below the one that is advertised.
"""

import ctypes
from typing import Any

from nodegate.node_side.load.cublas import Cublas, CublasError

WORKSPACE_BYTES = 32 << 20
_E4M3, _BF16, _FP32, _COMPUTE_FP32 = 28, 14, 0, 68  # cudaDataType, cublasComputeType_t
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # cublasLtMatmulDescAttributes_t; fp8 is multiplied in this form alone
_MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
_handle, _int, _size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", _size),
        ("state", _int),
        ("waves", ctypes.c_float),
        ("reserved", _int * 4),
    )


class Fp8:
    """Square matrices of one size on the current GPU."""

    def __init__(self, cublas: Cublas, stream: int, n: int, workspace: int, workspace_bytes: int) -> None:
        """Choose the algorithm.

        Raises:
            CublasError: this library or this GPU has no fp8.
        """
        self.n, self._cublas, self._stream = n, cublas, _handle(stream)
        self._workspace, self._workspace_bytes = _handle(workspace), _size(workspace_bytes)
        self._operation = self._made("cublasLtMatmulDescCreate", _int(_COMPUTE_FP32), _int(_FP32))
        for attribute, value in ((_TRANSPOSE_A, 1), (_TRANSPOSE_B, 0)):
            self._set("cublasLtMatmulDescSetAttribute", self._operation, attribute, ctypes.c_int32(value))
        self._operand, self._result = self._layout(_E4M3, n), self._layout(_BF16, n)
        self._algorithm = self._chosen(workspace_bytes)

    def product(self, left: int, right: int, result: int) -> None:
        """Queue result[i][j] = sum over k of left[i][k] * right[j][k], as `Cublas.product` does."""
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self._cublas.call(
            "cublasLtMatmul",
            self._cublas.handle,
            self._operation,
            ctypes.byref(one),
            _handle(right),
            self._operand,
            _handle(left),
            self._operand,
            ctypes.byref(zero),
            _handle(result),
            self._result,
            _handle(result),
            self._result,
            ctypes.byref(self._algorithm),
            self._workspace,
            self._workspace_bytes,
            self._stream,
        )

    def _chosen(self, workspace_bytes: int) -> Any:
        wish = self._made("cublasLtMatmulPreferenceCreate")
        self._set("cublasLtMatmulPreferenceSetAttribute", wish, _MAX_WORKSPACE, _size(workspace_bytes))
        found, count = _Heuristic(), _int()
        layouts = (self._operand, self._operand, self._result, self._result)
        self._cublas.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._cublas.handle,
            self._operation,
            *layouts,
            wish,
            _int(1),
            ctypes.byref(found),
            ctypes.byref(count),
        )
        if count.value < 1 or found.state:
            raise CublasError("cublasLtMatmulAlgoGetHeuristic", found.state, "no algorithm for fp8")
        return found.algorithm

    def _layout(self, kind: int, n: int) -> ctypes.c_void_p:
        sides = ctypes.c_uint64(n), ctypes.c_uint64(n), ctypes.c_int64(n)
        return self._made("cublasLtMatrixLayoutCreate", _int(kind), *sides)

    def _made(self, name: str, *args: object) -> ctypes.c_void_p:
        made = _handle()
        self._cublas.call(name, ctypes.byref(made), *args)
        return made

    def _set(self, name: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._cublas.call(name, of, _int(attribute), ctypes.byref(value), _size(ctypes.sizeof(value)))
