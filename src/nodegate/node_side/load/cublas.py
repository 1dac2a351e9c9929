"""cuBLAS if the node has it: finding the library, and one product of square matrices.

The library is searched for where administrators and pip put it (ld cache, /usr/local/cuda*, Python's package folders of
the system, never those of a home); newest first, none newer than the driver's CUDA. Constants are from
cublas_api.h and library_types.h.
"""

import ctypes
import glob
import os
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Tuple

from nodegate.node_side.load.cuda import CudaError
from nodegate.node_side.probe import child

_NAME = re.compile(r"libcublas\.so\.(\d{1,3})(?:\.(\d{1,5})){0,4}$")
_MAJORS = (13, 12, 11)
_FOLDERS = (
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/opt/nvidia/hpc_sdk/Linux_*/*/math_libs/lib64",
)
_PACKAGES = (
    "/usr/lib/python3*/*-packages/nvidia/{}/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/{}/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/{}/lib",
)
_PACKAGE_NAMES = ("cublas", "cu13")  # nvidia-cublas-cu11, -cu12; nvidia-cublas of CUDA 13

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
    "fp16": Type(2, 68, ctypes.c_float),
    "tf32": Type(0, 77, ctypes.c_float),
    "fp32": Type(0, 68, ctypes.c_float),
    "fp64": Type(1, 70, ctypes.c_double),
}


class CublasError(CudaError):
    """cuBLAS itself cannot be used: not loaded, not started, or not suitable for this GPU."""


def find(cuda_version: int) -> str:
    """The best library of the node for a driver (12040: CUDA 12.4); "" if there is none."""
    found: Dict[int, List[str]] = {}
    for path in _candidates():
        match = _NAME.search(os.path.basename(path))
        if match and os.path.exists(path):
            found.setdefault(int(match.group(1)), []).append(path)
    for major in _MAJORS:
        if major in found and major <= cuda_version // 1000:
            return max(found[major], key=_version)
    return ""


def _candidates() -> List[str]:
    patterns = list(_FOLDERS) + [each.format(name) for each in _PACKAGES for name in _PACKAGE_NAMES]
    paths = [path for pattern in patterns for path in glob.glob(pattern + "/libcublas.so.*")]
    return paths + _from_cache()


def _from_cache() -> List[str]:
    """The libraries in the loader's cache for this machine's word size."""
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            done = subprocess.run([program, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10)  # noqa: PLW1510 - an exit code says nothing here
        except (OSError, subprocess.SubprocessError):
            continue
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        return [line.rpartition(" => ")[2].strip() for line in lines if "libcublas.so" in line and "64" in line]
    return []


def _version(path: str) -> Tuple[int, ...]:
    """12.4.5.8 of the file behind libcublas.so.12."""
    return tuple(int(part) for part in re.findall(r"\d{1,5}", os.path.basename(os.path.realpath(path))))


class Cublas:
    """cuBLAS in the current context. The order of operations is fixed as long as one stream is used."""

    def __init__(self, path: str, stream: int) -> None:
        """Load and start the library.

        Raises:
            CublasError: it does not load or does not start.
        """
        child.note("loading " + path)
        try:
            # Found next to it, not by the loader's own search: a pip folder is on no search path.
            beside = re.sub(r"libcublas\.so", "libcublasLt.so", os.path.basename(path))
            if os.path.exists(os.path.join(os.path.dirname(path), beside)):
                ctypes.CDLL(os.path.join(os.path.dirname(path), beside), ctypes.RTLD_GLOBAL)
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise CublasError("loading " + path, -1, str(error)) from None
        handle = _handle()
        self._call("cublasCreate_v2", ctypes.byref(handle))
        self._handle = handle
        self._call("cublasSetStream_v2", handle, _handle(stream))
        self._call("cublasSetMathMode", handle, _int(_NO_REDUCED_REDUCTION))
        version = _int()
        self._call("cublasGetVersion_v2", handle, ctypes.byref(version))
        self.version = version.value

    def _call(self, name: str, *args: Any) -> None:
        child.note(name)
        function = getattr(self._library, name)
        function.restype = _int
        number = function(*args)
        if number:
            raise CublasError(name, number, _STATUS.get(number, "unknown status"))

    def product(self, dtype: str, n: int, left: int, right: int, result: int) -> None:
        """Queue result[i][j] = sum over k of left[i][k] * right[j][k], all row by row, n x n, at device addresses.

        cuBLAS counts column by column: what it computes is the transpose, right-hand matrix first.
        """
        kind = TYPES[dtype]
        one, zero = kind.scale(1), kind.scale(0)
        size, data = _int(n), _int(kind.data)
        self._call(
            "cublasGemmEx",
            self._handle,
            _int(_TRANSPOSED),
            _int(_AS_IT_IS),
            size,
            size,
            size,
            ctypes.byref(one),
            _handle(right),
            data,
            size,
            _handle(left),
            data,
            size,
            ctypes.byref(zero),
            _handle(result),
            data,
            size,
            _int(kind.compute),
            _int(_DEFAULT_ALGORITHM),
        )
