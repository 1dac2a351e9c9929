"""Matrix products as PTX text, by kernels of nodegate.

A product is C[i][j] = sum over k of A[i][k] * B[j][k]: all row by row, n x n, n a multiple of `STEP`. Two kinds of it:

* `simt` (fp32, fp64; any GPU from sm_50): one block computes a tile of 64g x 64g, each of its 256 threads 4g x 4g of it
  (g = 2 for fp32, 1 for fp64), from two buffers in shared memory with 8 columns of A and of B, transposed.
* `tensor` (bf16; from sm_80): one block computes 128 x 256, each of its 8 warps 64 x 64 by mma.sync, from a ring of 4
  stages in shared memory that cp.async fills 3 ahead. A stage holds 64 bytes of each row, and what ldmatrix hands to a
  lane is what mma takes (PTX ISA, "Matrix Fragments for mma.m16n8k16").

Verified (tests/node_side/test_ptx.py): ptxas assembles each for sm_50 (tensor: sm_80) to sm_120 without spills. An
interpreter, written from the PTX ISA, runs the same text against numpy, with cp.async arriving as late and as early as
allowed, and fails if a thread reads or overwrites shared memory that another touched since the last barrier.

Not verified: no GPU has run them. An error that the interpreter and these kernels share would show only there; so a
burn computes elements of its first result on the host too (`reference_errors`), and a kernel that a GPU reads
differently is found wrong and never passes. Their speed is not known either: a baseline applies only to its own `path`.
"""

from typing import List

from nodegate.node_side.load import ptx

STEP = 256
PRODUCT = "nodegate_product"
STAGES = 4
TILE_ROWS, TILE_COLUMNS = 128, 256  # of `tensor`
STAGE_BYTES = (TILE_ROWS + TILE_COLUMNS) * 64
TENSOR_SHARED = STAGES * STAGE_BYTES  # 98304 bytes: what sm_86, sm_89 and sm_120 have is 101376

BYTES = {"bf16": 2, "fp32": 4, "fp64": 8}
TENSOR = "bf16"
_GROUPS = {"fp32": 2, "fp64": 1}  # groups of four rows and columns that a thread has
_ROW_PAD = 16  # bytes: keeps rows of the transposed tiles 16-byte aligned and the stores free of bank conflicts
_DEPTH = 8  # columns of A and B at a time


def tile(dtype: str) -> "tuple[int, int]":
    """(rows, columns) of the result that one block computes."""
    return (TILE_ROWS, TILE_COLUMNS) if dtype == TENSOR else (64 * _GROUPS[dtype], 64 * _GROUPS[dtype])


def product(dtype: str) -> str:
    """The module with the matrix product of a dtype: nodegate_product(A, B, C, n)."""
    return _tensor() if dtype == TENSOR else _simt(dtype)


_PARAMS = ["u64 p_a", "u64 p_b", "u64 p_c", "u32 p_n"]


def _source(pointer: str, name: str, axis: str, rows: int, size: int, *, place: str, chunk: str) -> "List[str]":
    """Where a thread fetches: 16 bytes, the part `chunk` of the row %row of this block's `rows` of a matrix."""
    return [
        f"ld.param.u64 %p{pointer}, [p_{name}];",
        f"mov.u32 {place}, %ctaid.{axis};",
        f"mad.lo.u32 {place}, {place}, {rows}, %row;",
        f"mul.wide.u32 %wide, {place}, %n;",
        f"mul.lo.u64 %wide, %wide, {size};",
        f"add.u64 %p{pointer}, %p{pointer}, %wide;",
        f"mul.wide.u32 %wide, {chunk}, 16;",
        f"add.u64 %p{pointer}, %p{pointer}, %wide;",
    ]


# ---- simt ----


def _simt(dtype: str) -> str:
    """Per step of 8 columns: fetch the next into registers, multiply what shared memory holds, store, barrier."""
    size, groups = BYTES[dtype], _GROUPS[dtype]
    vector = 16 // size  # elements that a thread fetches of each matrix
    side = 4 * groups  # rows and columns of a thread
    row = 64 * groups * size + _ROW_PAD  # bytes of one column of A in shared memory
    half = _DEPTH * row  # one matrix in one buffer
    f = f"f{8 * size}"
    lanes = _DEPTH // vector  # threads that share a row in fetching
    loads = {"a": 0, "b": half}
    lines: List[str] = [
        ".reg .pred %more; .reg .b32 %t, %row, %part, %x, %y, %n, %k, %buffer, %shift;",
        f".reg .b32 %store, %read_a, %read_b; .reg .{f} %c<{side * side}>;",
        f".reg .{f} %a<{side}>, %b<{side}>, %fa<{vector}>, %fb<{vector}>; .reg .b64 %pa, %pb, %pc, %wide, %pitch;",
        f".shared .align 16 .b8 tiles[{4 * half}];",
        "mov.u32 %t, %tid.x;",
        "ld.param.u32 %n, [p_n];",
        f"shr.u32 %row, %t, {lanes.bit_length() - 1};",
        f"and.b32 %part, %t, {lanes - 1};",
    ]
    # Where this thread fetches: row `row` of the tile, `vector` elements from column part * vector.
    for name, axis in (("a", "y"), ("b", "x")):
        lines += _source(name, name, axis, 64 * groups, size, place="%k", chunk="%part")
    lines += [
        "mov.u32 %buffer, tiles;",
        f"mul.lo.u32 %k, %part, {vector * row};",
        f"mad.lo.u32 %store, %row, {size}, %k;",
        "add.u32 %store, %store, %buffer;",
        "and.b32 %x, %t, 15;",
        "shr.u32 %y, %t, 4;",
        f"mad.lo.u32 %read_a, %y, {4 * size}, %buffer;",
        f"mad.lo.u32 %read_b, %x, {4 * size}, %buffer;",
    ]
    lines += [f"mov.{f} %c{each}, 0{'f' if size == 4 else 'd'}{'0' * 2 * size};" for each in range(side * side)]
    fetch = [f"ld.global.v{vector}.{f} {ptx.braced('f' + name, vector)}, [%p{name}];" for name in loads]
    advance = [f"add.u64 %p{name}, %p{name}, {_DEPTH * size};" for name in loads]
    store = [
        f"st.shared.{f} [%store+{base + each * row}], %f{name}{each};"
        for name, base in loads.items()
        for each in range(vector)
    ]
    lines += [*fetch, *advance, *store, f"mov.u32 %shift, {2 * half};", "bar.sync 0;", "mov.u32 %k, 0;", "STEP:"]
    lines += [f"add.u32 %k, %k, {_DEPTH};", "setp.lt.u32 %more, %k, %n;", "@!%more bra MULTIPLY;", *fetch, *advance]
    lines += ["MULTIPLY:", *_simt_multiply(f, size, groups, row, half)]
    # Into the other buffer: its last readers have passed the barrier of the step before.
    lines += ["@!%more bra WRITE;", "add.u32 %store, %store, %shift;", *store, "bar.sync 0;"]
    lines += [f"add.u32 %{register}, %{register}, %shift;" for register in ("read_a", "read_b")]
    lines += ["neg.s32 %shift, %shift;", "bra STEP;", "WRITE:", *_simt_write(f, size, groups)]
    return ptx.head() + ptx.entry(PRODUCT, _PARAMS, lines)


def _simt_multiply(f: str, size: int, groups: int, row: int, half: int) -> "list[str]":
    lines: List[str] = []
    side, vector = 4 * groups, 16 // size
    for k in range(_DEPTH):
        for name, base in (("a", 0), ("b", half)):
            for first in range(0, side, vector):
                at = base + k * row + (first // 4) * 64 * size + (first % 4) * size
                lines.append(f"ld.shared.v{vector}.{f} {ptx.braced(name, vector, first)}, [%read_{name}+{at}];")
        for i in range(side):
            lines += [f"fma.rn.{f} %c{i * side + j}, %a{i}, %b{j}, %c{i * side + j};" for j in range(side)]
    return lines


def _simt_write(f: str, size: int, groups: int) -> "list[str]":
    """Each thread's rows are 4y .. 4y+3 of each group of 64, its columns 4x .. 4x+3."""
    side, vector = 4 * groups, 16 // size
    lines = [
        "ld.param.u64 %pc, [p_c];",
        "mov.u32 %k, %ctaid.y;",
        "mul.lo.u32 %y, %y, 4;",
        f"mad.lo.u32 %k, %k, {64 * groups}, %y;",
        "mul.wide.u32 %wide, %k, %n;",
        "mov.u32 %k, %ctaid.x;",
        "mul.lo.u32 %x, %x, 4;",
        f"mad.lo.u32 %k, %k, {64 * groups}, %x;",
        "cvt.u64.u32 %pitch, %k;",
        "add.u64 %wide, %wide, %pitch;",
        f"mul.lo.u64 %wide, %wide, {size};",
        "add.u64 %pc, %pc, %wide;",
        f"mul.wide.u32 %pitch, %n, {size};",
    ]
    for i in range(side):
        for j in range(0, side, vector):
            at = (j // 4) * 64 * size + (j % 4) * size
            lines.append(f"st.global.v{vector}.{f} [%pc+{at}], {ptx.braced('c', vector, i * side + j)};")
        if i == 3:  # to the next group: rows 4 .. 63 are in between
            lines += ["mul.lo.u64 %wide, %pitch, 61;", "add.u64 %pc, %pc, %wide;"]
        else:
            lines.append("add.u64 %pc, %pc, %pitch;")
    return [*lines, "ret;"]


# ---- tensor ----


_MULTIPLY = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"  # 32 bytes of k
# In shared memory a row has 64 bytes; its chunk c is at c ^ (row / 2 % 4), so that 8 rows fill all 32 banks.
_SWIZZLED = ("shr.u32 %swizzle, %row, 1;", "and.b32 %swizzle, %swizzle, 3;", "xor.b32 %chunk, %chunk, %swizzle;")


def _tensor() -> str:
    """Wait for a stage, barrier, start the filling of the stage that was read last, multiply."""
    size = BYTES[TENSOR]
    lines = [
        ".reg .pred %more, %wrap; .reg .b32 %t, %lane, %warp, %row, %chunk, %swizzle, %n, %k, %steps, %u, %v;",
        ".reg .b32 %fill, %fill_at, %read, %lane_a<2>, %lane_b<2>, %at_a, %at_b, %ahead;",
        ".reg .b32 %a<16>, %b<16>; .reg .f32 %c<128>; .reg .b64 %pa<2>, %pb<4>, %pc, %pitch, %wide, %below;",
        "mov.u32 %t, %tid.x;",
        "ld.param.u32 %n, [p_n];",
        *_tensor_sources(size),
        *_tensor_lanes(),
        *[f"mov.f32 %c{each}, 0f00000000;" for each in range(128)],
        f"shr.u32 %steps, %n, {(64 // size).bit_length() - 1};",
        "mov.u32 %ahead, 0;",
        "mov.u32 %fill_at, 0;",
        "mov.u32 %read, 0;",
    ]
    for _ in range(STAGES - 1):
        lines += [*_tensor_fill(), "cp.async.commit_group;"]
    lines += [
        "mov.u32 %k, 0;",
        "STEP:",
        f"cp.async.wait_group {STAGES - 2};",
        "bar.sync 0;",
        "setp.lt.u32 %more, %ahead, %steps;",
        "@!%more bra FILLED;",
        *_tensor_fill(),
        "FILLED:",
        "cp.async.commit_group;",
        *_tensor_multiply(),
        f"add.u32 %read, %read, {STAGE_BYTES};",
        f"setp.eq.u32 %wrap, %read, {TENSOR_SHARED};",
        "@%wrap mov.u32 %read, 0;",
        "add.u32 %k, %k, 1;",
        "setp.lt.u32 %more, %k, %steps;",
        "@%more bra STEP;",
        *_tensor_write(size),
    ]
    shared = ".extern .shared .align 1024 .b8 stages[];\n"
    return ptx.head("7.0", "sm_80") + shared + ptx.entry(PRODUCT, _PARAMS, lines)


def _tensor_sources(size: int) -> "list[str]":
    """Thread t brings 16 bytes (chunk t % 4) of rows t / 4, t / 4 + 64, ...: two of A's tile, four of B's."""
    lines = ["shr.u32 %row, %t, 2;", "and.b32 %chunk, %t, 3;", f"mul.wide.u32 %pitch, %n, {64 * size};"]
    for name, axis, rows in (("a", "y", TILE_ROWS), ("b", "x", TILE_COLUMNS)):
        lines += _source(f"{name}0", name, axis, rows, size, place="%u", chunk="%chunk")
        lines += [f"add.u64 %p{name}{each}, %p{name}{each - 1}, %pitch;" for each in range(1, rows // 64)]
    return [
        *lines,
        *_SWIZZLED,
        "mov.u32 %fill, stages;",
        "mad.lo.u32 %fill, %row, 64, %fill;",
        "mad.lo.u32 %fill, %chunk, 16, %fill;",
    ]


def _tensor_fill() -> "list[str]":
    """Start the copies of the next 64 bytes of every row into stage `fill_at`."""
    lines = ["add.u32 %u, %fill, %fill_at;"]
    for name, count, base in (("a", 2, 0), ("b", 4, TILE_ROWS * 64)):
        for each in range(count):
            lines.append(f"cp.async.cg.shared.global [%u+{base + each * 64 * 64}], [%p{name}{each}], 16;")
            lines.append(f"add.u64 %p{name}{each}, %p{name}{each}, 64;")
    return [
        *lines,
        f"add.u32 %fill_at, %fill_at, {STAGE_BYTES};",
        f"setp.eq.u32 %wrap, %fill_at, {TENSOR_SHARED};",
        "@%wrap mov.u32 %fill_at, 0;",
        "add.u32 %ahead, %ahead, 1;",
    ]


def _tensor_lanes() -> "list[str]":
    """The addresses that a lane gives to ldmatrix.x4, for the first and the second 32 bytes of a row.

    A, 16 rows: matrices (rows 0-7, first chunk), (8-15, first), (0-7, second), (8-15, second): a lane's row is lane %
    16, its chunk lane / 16. B, 16 columns of the result: (0-7, first), (0-7, second), (8-15, first), (8-15, second):
    its row is lane % 8 + 8 * (lane / 16), its chunk lane / 8 % 2. Warps are arranged 2 x 4 over the block's tile.
    """
    return [
        "and.b32 %lane, %t, 31;",
        "shr.u32 %warp, %t, 5;",
        "mov.u32 %v, stages;",
        "and.b32 %u, %warp, 1;",
        "and.b32 %row, %lane, 15;",
        "mad.lo.u32 %row, %u, 64, %row;",
        "shr.u32 %chunk, %lane, 4;",
        *_SWIZZLED,
        "mad.lo.u32 %lane_a0, %row, 64, %v;",
        "shl.b32 %u, %chunk, 4;",
        "add.u32 %lane_a0, %lane_a0, %u;",
        "xor.b32 %lane_a1, %lane_a0, 32;",
        "shr.u32 %u, %warp, 1;",
        "and.b32 %row, %lane, 7;",
        "mad.lo.u32 %row, %u, 64, %row;",
        "shr.u32 %u, %lane, 4;",
        "mad.lo.u32 %row, %u, 8, %row;",
        "shr.u32 %chunk, %lane, 3;",
        "and.b32 %chunk, %chunk, 1;",
        *_SWIZZLED,
        "mad.lo.u32 %lane_b0, %row, 64, %v;",
        "shl.b32 %u, %chunk, 4;",
        "add.u32 %lane_b0, %lane_b0, %u;",
        f"add.u32 %lane_b0, %lane_b0, {TILE_ROWS * 64};",
        "xor.b32 %lane_b1, %lane_b0, 32;",
    ]


def _tensor_multiply() -> "list[str]":
    """4 x 8 tiles of 16 x 8 for each 32 bytes of k."""
    lines: List[str] = []
    for half in (0, 1):
        lines += [f"add.u32 %at_a, %lane_a{half}, %read;", f"add.u32 %at_b, %lane_b{half}, %read;"]
        for name in ("a", "b"):
            for four in range(4):
                at = f"[%at_{name}+{four * 16 * 64}]"
                lines.append(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {ptx.braced(name, 4, 4 * four)}, {at};")
        for i in range(4):
            for j in range(8):
                sums = ptx.braced("c", 4, 4 * (8 * i + j))
                lines.append(f"{_MULTIPLY} {sums}, {ptx.braced('a', 4, 4 * i)}, {ptx.braced('b', 2, 2 * j)}, {sums};")
    return lines


def _tensor_write(size: int) -> "list[str]":
    """A lane holds of each 16 x 8 tile: row lane / 4, columns 2 * (lane % 4) and the next; the same 8 rows below."""
    lines = [
        "cp.async.wait_all;",
        "mov.u32 %u, %ctaid.y;",
        "and.b32 %v, %warp, 1;",
        "shr.u32 %row, %lane, 2;",
        f"mad.lo.u32 %row, %u, {TILE_ROWS}, %row;",
        "mad.lo.u32 %row, %v, 64, %row;",
        "mov.u32 %u, %ctaid.x;",
        "shr.u32 %v, %warp, 1;",
        "and.b32 %chunk, %lane, 3;",
        "shl.b32 %chunk, %chunk, 1;",
        f"mad.lo.u32 %chunk, %u, {TILE_COLUMNS}, %chunk;",
        "mad.lo.u32 %chunk, %v, 64, %chunk;",
        "mul.wide.u32 %wide, %row, %n;",
        "cvt.u64.u32 %pitch, %chunk;",
        "add.u64 %wide, %wide, %pitch;",
        f"mul.lo.u64 %wide, %wide, {size};",
        "ld.param.u64 %pc, [p_c];",
        "add.u64 %pc, %pc, %wide;",
        f"mul.wide.u32 %pitch, %n, {8 * size};",
    ]
    for i in range(4):
        for below in (0, 2):
            for j in range(8):
                low, high = (f"%c{4 * (8 * i + j) + below + each}" for each in (0, 1))
                at = f"[%pc+{8 * j * size}]"
                # the first operand becomes the upper half
                lines += [f"cvt.rn.bf16x2.f32 %u, {high}, {low};", f"st.global.u32 {at}, %u;"]
            lines.append("add.u64 %pc, %pc, %pitch;")
    return [*lines, "ret;"]
