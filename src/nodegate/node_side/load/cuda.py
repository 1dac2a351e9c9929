"""NVIDIA's driver API (libcuda.so.1) by ctypes: contexts, memory, streams, events, kernels, peers.

Every call notes its name first (node_side/probe/child.py), so that a hang can be named, and raises its error.
Prototypes are those of cuda.h; names with `_v2` are what its macros expand to, and are exported by every driver since
CUDA 4.0 (cuDevicePrimaryCtxSetFlags_v2: 11.0).
"""

import ctypes
import ctypes.util
from typing import Any, Dict, List, Sequence, Tuple

from nodegate.node_side.load.ptx import THREADS
from nodegate.node_side.probe import child

LIBRARY = "libcuda.so.1"

# CUdevice_attribute
MULTIPROCESSORS, MAJOR, MINOR = 16, 75, 76
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE
_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES = 5, 6  # CUjit_option
_LOG_BYTES = 4096
PEER_ALREADY_ENABLED = 704
_BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC: whoever waits for a GPU sleeps, and costs no core
_MORE = {
    221: "libnvidia-ptxjitcompiler.so.1 is missing: install it with the driver; some distributions package it apart"
}

_int, _uint, _size = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_address = ctypes.c_uint64  # CUdeviceptr
_handle = ctypes.c_void_p
_out = ctypes.c_void_p  # by reference

_PROTOTYPES: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (_uint,),
    "cuGetErrorName": (_int, _out),
    "cuDeviceGetByPCIBusId": (_out, ctypes.c_char_p),
    "cuDeviceGetAttribute": (_out, _int, _int),
    "cuDevicePrimaryCtxRetain": (_out, _int),
    "cuDevicePrimaryCtxSetFlags_v2": (_int, _uint),
    "cuCtxSetCurrent": (_handle,),
    "cuDeviceCanAccessPeer": (_out, _int, _int),
    "cuCtxEnablePeerAccess": (_handle, _uint),
    "cuMemGetInfo_v2": (_out, _out),
    "cuMemAlloc_v2": (_out, _size),
    "cuMemFree_v2": (_address,),
    "cuMemHostAlloc": (_out, _size, _uint),
    "cuMemcpyDtoH_v2": (_handle, _address, _size),
    "cuMemcpyHtoDAsync_v2": (_address, _handle, _size, _handle),
    "cuMemcpyDtoHAsync_v2": (_handle, _address, _size, _handle),
    "cuMemcpyDtoDAsync_v2": (_address, _address, _size, _handle),
    "cuMemcpyPeerAsync": (_address, _handle, _address, _handle, _size, _handle),
    "cuMemsetD32Async": (_address, _uint, _size, _handle),
    "cuStreamCreate": (_out, _uint),
    "cuStreamSynchronize": (_handle,),
    "cuEventCreate": (_out, _uint),
    "cuEventRecord": (_handle, _handle),
    "cuEventElapsedTime": (_out, _handle, _handle),
    "cuStreamWaitEvent": (_handle, _handle, _uint),
    "cuModuleLoadDataEx": (_out, ctypes.c_char_p, _uint, _out, _out),
    "cuModuleGetFunction": (_out, _handle, ctypes.c_char_p),
    "cuFuncSetAttribute": (_handle, _int, _int),
    "cuLaunchKernel": (_handle,) + (_uint,) * 7 + (_handle, _out, _out),
}


class CudaError(Exception):
    """A call that failed: its name, the number it answered and NVIDIA's name for that."""

    def __init__(self, call: str, number: int, name: str, more: str = "") -> None:
        super().__init__("{}: {} {}{}".format(call, number, name, f" ({more})" if more else ""))
        self.call, self.number, self.name = call, number, name


class Cuda:
    """The driver API in this process. Handles and device addresses are plain numbers; sizes bytes, times seconds."""

    def __init__(self) -> None:
        """Load the library and start it. Raises CudaError: it does not load (number -1) or does not start."""
        child.note("loading " + LIBRARY)
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise CudaError("loading " + LIBRARY, -1, str(error)) from None
        self.call("cuInit", 0)

    def call(self, name: str, *args: Any, about: str = "") -> None:
        """Call one function; `about` says in a message what it was for.

        Raises:
            CudaError: it returned an error, or this driver has no such function.
        """
        child.note(name)
        number = self._function(name)(*args)
        if number:
            text = ctypes.c_char_p()  # CUDA_ERROR_ECC_UNCORRECTABLE for 214
            self._function("cuGetErrorName")(number, ctypes.byref(text))
            said = (text.value or b"unknown error").decode("ascii", "replace")
            raise CudaError(f"{name} {about}".strip(), number, said, _MORE.get(number, ""))

    def _function(self, name: str) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise CudaError(name, -1, "this driver has no such function") from None
        function.argtypes, function.restype = _PROTOTYPES[name], _int
        return function

    def number(self, name: str, *args: Any, about: str = "") -> int:
        """The number that a function writes to its first argument, an int."""
        value = _int()
        self.call(name, ctypes.byref(value), *args, about=about)
        return value.value

    def _made(self, name: str, *args: Any, about: str = "") -> int:
        """The handle or address that a function writes to its first argument, of eight bytes."""
        value = _address()
        self.call(name, ctypes.byref(value), *args, about=about)
        return value.value

    def device(self, bus_id: str) -> int:
        """The device at a PCI address ("00000000:5D:00.0", as NVML writes it)."""
        return self.number("cuDeviceGetByPCIBusId", bus_id.encode("ascii"), about=bus_id)

    def attribute(self, device: int, which: int) -> int:
        """A CUdevice_attribute."""
        return self.number("cuDeviceGetAttribute", which, device)

    def context(self, device: int) -> int:
        """The primary context of a device (the one that cuBLAS uses too), made current for this thread."""
        self.call("cuDevicePrimaryCtxSetFlags_v2", device, _BLOCKING_SYNC)
        context = self._made("cuDevicePrimaryCtxRetain", device)
        self.use(context)
        return context

    def use(self, context: int) -> None:
        """Make a context current for this thread."""
        self.call("cuCtxSetCurrent", context)

    def enable_peer(self, peer_context: int) -> None:
        """Let the current context read and write the memory of another; no error if it may already."""
        try:
            self.call("cuCtxEnablePeerAccess", peer_context, 0)
        except CudaError as error:
            if error.number != PEER_ALREADY_ENABLED:
                raise

    def memory(self) -> Tuple[int, int]:
        """(free, total) bytes of the current context's device."""
        free, total = _size(), _size()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """Device memory."""
        return self._made("cuMemAlloc_v2", size, about=f"of {size} bytes")

    def free(self, address: int) -> None:
        """Free device memory."""
        self.call("cuMemFree_v2", address)

    def allocate_host(self, size: int) -> int:
        """Pinned host memory, usable from every context."""
        return self._made("cuMemHostAlloc", size, _PORTABLE, about=f"of {size} bytes")

    def read(self, address: int, size: int) -> bytes:
        """Bytes of device memory; `wait` first for the stream that writes them, this does not."""
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", ctypes.addressof(buffer), address, size)
        return buffer.raw

    def set_words(self, address: int, word: int, count: int, stream: int) -> None:
        """Queue the filling of `count` 32-bit words."""
        self.call("cuMemsetD32Async", address, word, count, stream)

    def stream(self) -> int:
        """A new stream; it does not wait for the default stream."""
        return self._made("cuStreamCreate", 1)

    def wait(self, stream: int) -> None:
        """Wait until everything queued in a stream is done. Errors of kernels show up here."""
        self.call("cuStreamSynchronize", stream)

    def event(self) -> int:
        """A new event that keeps the time."""
        return self._made("cuEventCreate", 0)

    def record(self, event: int, stream: int) -> None:
        """Queue the event."""
        self.call("cuEventRecord", event, stream)

    def elapsed_s(self, start: int, end: int) -> float:
        """Seconds between two events that have happened; resolution about half a microsecond."""
        value = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(value), start, end)
        return value.value / 1000.0

    def module(self, ptx: str) -> int:
        """Compile PTX for the current device; the compiler's message is part of the error."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (_int * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES)
        values = (_handle * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            return self._made("cuModuleLoadDataEx", ptx.encode("ascii"), 2, options, values)
        except CudaError as error:
            said = log.value.decode("utf-8", "replace").strip().replace("\n", " ")
            raise CudaError(error.call, error.number, error.name, said[:300] or _MORE.get(error.number, "")) from None

    def kernel(self, module: int, name: str, shared: int = 0) -> int:
        """A kernel of a module; `shared` is the dynamic shared memory in bytes that it will be launched with."""
        function = self._made("cuModuleGetFunction", module, name.encode("ascii"), about=name)
        if shared:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared, about=name)
        return function

    def launch(
        self, kernel: int, grid: Sequence[int], args: "List[Any]", about: str, *, stream: int, shared: int = 0
    ) -> None:
        """Queue a kernel. `grid` is (x, y) blocks of THREADS; `args` are ctypes values in the kernel's order."""
        pointers = (_handle * len(args))(*[ctypes.addressof(each) for each in args])
        x, y = grid
        self.call("cuLaunchKernel", kernel, x, y, 1, THREADS, 1, 1, shared, stream, pointers, None, about=about)
