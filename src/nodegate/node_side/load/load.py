"""The load on one GPU, in its own process: products into a ring of results that fills its memory, all compared.

It sends parts during its work, dictionaries with one key ("gpu", "phase", "window", "mismatch", "started"), so that
what a GPU did before it hung or failed stays. They are described in docs/reference/burn-document.md.
"""

import array
import ctypes
import re
import time
import zlib
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from nodegate.node_side.load import cublas, cuda, operands, place, products
from nodegate.node_side.load import turns as steps
from nodegate.node_side.load.buffers import Words
from nodegate.node_side.load.cublas import Cublas, CublasError
from nodegate.node_side.probe import child

CHUNK_S = 0.5  # of products before they are compared
MOST_WINDOWS = 100
_MOST_RESULTS = 4096
_CHECKED = 32  # elements of the first result that the host computes too
_PIECE = 16 << 20
_FILLED = 0.9  # of the free memory
_LEFT = 0.9  # of that, for matrices beside what fp8 and fp4 need before them
_NONE = 0xFFFFFFFF
# Compute capabilities of the chips that do fp64 at half the rate of fp32; on the others it is 1/32 to 1/64: no load.
_FP64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
_FP64_CUT = re.compile(r"\bH(?:20|800)\b")  # boards of such a chip that are sold without it
_FROM = {"fp8": (8, 9), "fp4": (10, 0)}  # the first chips that have it


class Phase(NamedTuple):
    """A dtype, its seconds, and the size of its matrices."""

    dtype: str
    seconds: float
    matrix: int


class Job(NamedTuple):
    """What one GPU is to do; `library` is cuBLAS's path, "" for nodegate's own kernels."""

    slot: int
    uuid: str
    name: str
    pci: str
    phases: Tuple[Phase, ...]
    library: str
    start_until: float
    start_limit_s: float
    answer_limit_s: float


def run(job: Job, turns: steps.Turns) -> Dict[str, object]:
    """The whole load. Returns {"error": text, "of_library": whether cuBLAS itself could not be used}."""
    turns.say(job.slot, steps.PREPARING)
    place.see_only([job.uuid])
    try:
        place.answer_within(job.start_limit_s)
        gpu = _Gpu(job)
        first = _Ring(gpu, 0)
        place.answer_within(0)
        turns.say(job.slot, steps.READY)
        turns.start_with_all(job.start_until)
        turns.say(job.slot, steps.LOADING)
        child.emit({"started": turns.started})
        first.load(turns.started)
        for number in range(1, len(gpu.phases)):
            place.answer_within(job.answer_limit_s)
            _Ring(gpu, number).load(turns.started)
        place.answer_within(0)
    except cuda.CudaError as error:
        return {"error": str(error), "of_library": isinstance(error, CublasError)}
    finally:
        turns.say(job.slot, steps.ENDED)
    return {"error": "", "of_library": False}


def chosen(
    phases: "Sequence[Phase]", capability: "Tuple[int, ...]", name: str, own_kernels: bool
) -> "Tuple[List[Phase], Dict[str, str]]":
    """(what this GPU is burned in, {dtype that is left out: why}); the first phase stays, and gets their time."""
    why = {phase.dtype: _why_not(phase.dtype, capability, name, own_kernels) for phase in phases[1:]}
    return without(phases, {dtype: text for dtype, text in why.items() if text})


def without(phases: "Sequence[Phase]", left_out: "Dict[str, str]") -> "Tuple[List[Phase], Dict[str, str]]":
    """The phases without some, whose time the first one gets."""
    kept = [phase for phase in phases if phase is phases[0] or phase.dtype not in left_out]
    gained = sum(phase.seconds for phase in phases) - sum(phase.seconds for phase in kept)
    return [kept[0]._replace(seconds=kept[0].seconds + gained), *kept[1:]], left_out


def _why_not(dtype: str, capability: "Tuple[int, ...]", name: str, own_kernels: bool) -> str:
    if dtype == "fp64" and (capability not in _FP64 or _FP64_CUT.search(name)):
        return "this board has hardly any units for it"
    if dtype not in _FROM:
        return ""
    if capability < _FROM[dtype]:
        return "this GPU does not have it"
    return "nodegate has no kernel of its own for it" if own_kernels else ""


def that_fits(matrix: int, size: int, room: int) -> int:
    """The largest size up to the requested one, of which two operands and three results fit."""
    n = max(matrix // products.STEP, 1) * products.STEP
    while n > products.STEP and 5 * n * n * size > room:
        n = max(n // 2 // products.STEP, 1) * products.STEP
    if 5 * n * n * size > room:
        raise cuda.CudaError("too little memory", -1, f"{room} bytes")
    return n


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
        grid = n // columns, n // rows
        self._cuda.launch(self._kernel, grid, args, products.PRODUCT, stream=self._stream, shared=self._shared)


class _Gpu:
    """The GPU with its context, its kernels and one large piece of its memory."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.cuda = cuda.Cuda()
        self.device = self.cuda.device(job.pci)
        self.capability = tuple(self.cuda.attribute(self.device, each) for each in (cuda.MAJOR, cuda.MINOR))  # (9, 0)
        processors = self.cuda.attribute(self.device, cuda.MULTIPROCESSORS)
        self.cuda.context(self.device)
        self.stream = self.cuda.stream()
        self.words = Words(self.cuda, self.stream)
        self.cublas = Cublas(job.library, self.stream) if job.library else None
        self.narrow: Dict[str, cublas.Narrow] = {}
        self.phases, left_out = self._phases()
        self.size = int(self.cuda.memory()[0] * _FILLED) & ~0xFF
        self.memory = self.cuda.allocate(self.size)
        self.counts = self.cuda.allocate(8 * _MOST_RESULTS)  # differing words of each result, then the first of them
        self.events = self.cuda.event(), self.cuda.event()
        about = {
            "compute_capability": "{}.{}".format(*self.capability),
            "multiprocessors": processors,
            "memory_used_by_burn_bytes": self.size,
            "library_version": self.cublas.version if self.cublas else 0,
            "left_out": left_out,
        }
        child.emit({"gpu": about})

    def _phases(self) -> "Tuple[List[Phase], Dict[str, str]]":
        """What this GPU is burned in, and what is left out; chooses the algorithms of fp8 and fp4."""
        found, left_out = chosen(self.job.phases, self.capability, self.job.name, self.cublas is None)
        wanted = [phase for phase in found if phase.dtype in cublas.NARROW]
        if not wanted or not self.cublas:
            return found, left_out
        free = self.cuda.memory()[0]
        n = that_fits(wanted[0].matrix, operands.BYTES["bf16"], int(_LEFT * free * _FILLED))
        room = cublas.room(self.cuda, self.stream, n, free)
        refused = {}
        for phase in wanted:
            try:
                self.narrow[phase.dtype] = cublas.Narrow(self.cublas, self.stream, phase.dtype, room)
            except CublasError as error:  # noqa: PERF203 - this library cannot multiply this type
                refused[phase.dtype] = str(error)
        return without(found, dict(left_out, **refused)) if refused else (found, left_out)


class _Ring:
    """One phase: two operands and as many results as the memory holds; all results must equal the first."""

    def __init__(self, gpu: _Gpu, number: int) -> None:
        """Fill the operands, compute the first result, check it on the host."""
        self.gpu, self.number, self.phase = gpu, number, gpu.phases[number]
        dtype = self.dtype = self.phase.dtype
        self.kernel = None if gpu.cublas else Product(gpu.cuda, gpu.stream, dtype, gpu.capability)
        self.result = operands.RESULTS.get(dtype, dtype)
        self.narrow = gpu.narrow.get(dtype)
        matrix = self.narrow.n if self.narrow else self.phase.matrix
        self.n = that_fits(matrix, operands.BYTES[self.result], gpu.size)
        self.bytes = self.n * self.n * operands.BYTES[self.result]  # of a result; an operand has no more
        self.results = min(gpu.size // self.bytes - 2, _MOST_RESULTS)
        self.done = 0  # products of the load
        self._fill(0, operands.SEED_LEFT)
        self._fill(1, operands.SEED_RIGHT)
        self._product(0)
        gpu.cuda.wait(gpu.stream)
        self.product_s = self._timed(1)
        wrong, worst = self._check()
        crc = 0  # CRC-32 of the first result, in pieces that fit into the host's memory
        for offset in range(0, self.bytes, _PIECE):
            crc = zlib.crc32(gpu.cuda.read(self._at(2) + offset, min(_PIECE, self.bytes - offset)), crc)
        about = {
            "dtype": dtype,
            "matrix": self.n,
            "kernel": self.kernel.name if self.kernel else "",
            "checksum": f"{crc & _NONE:08x}",
            "reference_errors": wrong,
            "reference_worst": round(worst, 6),
        }
        child.emit({"phase": about})

    def load(self, start: float) -> None:
        """Products, then comparisons, repeatedly until the time is over."""
        began = window = time.monotonic()
        length = max(1.0, self.phase.seconds / MOST_WINDOWS)
        sums = [0, 0.0, 0]  # products, their seconds on the GPU, mismatches: of this window
        while True:
            place.answer_within(self.gpu.job.answer_limit_s)
            count = max(1, min(int(CHUNK_S / self.product_s), self.results - 1))
            took = self._timed(count)
            self.product_s = max(took / count, 1e-6)
            sums = [sums[0] + count, sums[1] + took, sums[2] + self._mismatches(count, start)]
            self.done += count
            now = time.monotonic()
            over = now - began >= self.phase.seconds
            if over or now - window >= length:
                child.emit({"window": [self.number, round(now - start, 3), round(now - began, 3), *sums]})
                window, sums = now, [0, 0.0, 0]
            if over:
                return

    def _at(self, matrix: int) -> int:
        """The address of an operand (0, 1) or a result (2, 3, ...)."""
        return self.gpu.memory + matrix * self.bytes

    def _slot(self, product: int) -> int:
        return 1 + (self.done + product) % (self.results - 1)

    def _fill(self, matrix: int, seed: int) -> None:
        size = operands.matrix_bytes(self.dtype, self.n)
        self.gpu.words.fill(self._at(matrix), size, seed, operands.MASKS[self.dtype])

    def _product(self, slot: int) -> None:
        left, right, result = self._at(0), self._at(1), self._at(2 + slot)
        if self.kernel:
            self.kernel.queue(left, right, result, self.n)
        elif self.narrow:
            self.narrow.product(left, right, result)
        elif self.gpu.cublas:
            self.gpu.cublas.product(self.dtype, self.n, left, right, result)

    def _timed(self, count: int) -> float:
        """Do products and return their seconds on the GPU; the previous results are compared at the same time."""
        gpu, api = self.gpu, self.gpu.cuda
        api.set_words(gpu.counts, 0, self.results, gpu.stream)
        api.set_words(gpu.counts + 4 * _MOST_RESULTS, _NONE, self.results, gpu.stream)
        api.record(gpu.events[0], gpu.stream)
        for product in range(count):
            self._product(self._slot(product))
        api.record(gpu.events[1], gpu.stream)
        for slot in map(self._slot, range(count)):
            counts = gpu.counts + 4 * slot
            gpu.words.compare(self._at(2), self._at(2 + slot), self.bytes, counts, counts + 4 * _MOST_RESULTS)
        api.wait(gpu.stream)
        return max(api.elapsed_s(*gpu.events), 1e-9)

    def _mismatches(self, count: int, start: float) -> int:
        """Differing words of the products just done; the first is reported with its place."""
        words = array.array("I", self.gpu.cuda.read(self.gpu.counts, 4 * self.results))
        wrong = [product for product in range(count) if words[self._slot(product)]]
        if wrong:
            slot = self._slot(wrong[0])
            first = array.array("I", self.gpu.cuda.read(self.gpu.counts + 4 * (_MOST_RESULTS + slot), 4))[0]
            row, column = divmod(first * 4 // operands.BYTES[self.result], self.n)
            place_of_it = {"row": row, "column": column, "words": words[slot]}
            at_s, iteration = round(time.monotonic() - start, 3), self.done + wrong[0]
            child.emit({"mismatch": dict(place_of_it, phase=self.number, iteration=iteration, at_s=at_s)})
        return sum(words[self._slot(product)] for product in wrong)

    def _check(self) -> "Tuple[int, float]":
        """(wrong elements, largest deviation) among elements from all over the first result."""
        size, deviations = operands.BYTES[self.result], []  # type: Tuple[int, List[float]]
        for each in range(_CHECKED):
            row, column = (operands.word(2 * each + axis, 0) % self.n for axis in (0, 1))
            found = self.gpu.cuda.read(self._at(2) + (row * self.n + column) * size, size)
            left = operands.row(self.dtype, row, self.n, operands.SEED_LEFT)
            right = operands.row(self.dtype, column, self.n, operands.SEED_RIGHT)
            deviations.append(operands.deviation(self.dtype, left, right, operands.values(self.result, found)[0]))
        return sum(each > 1.0 for each in deviations), max(deviations)


def progress(parts: "List[object]", what: str) -> "List[object]":
    """The parts of one kind."""
    return [part[what] for part in parts if isinstance(part, dict) and what in part]
